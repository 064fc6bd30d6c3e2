// Package jobs has no Go code but tests. They test the files here that run the tasks of a
// set with make, xargs, Slurm, Kubernetes and Spark (see README.md).
package jobs
