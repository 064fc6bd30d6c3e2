// Package jobs has no code: it holds what runs the tasks of a set with make, xargs, Slurm,
// Kubernetes and Spark (README.md), and tests of that.
package jobs
