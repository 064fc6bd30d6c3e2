// Package jobs has no code, but files that run the tasks of a set with make, xargs, Slurm,
// Kubernetes and Spark (README.md), and tests of these.
package jobs
