// Package readers has readers of filter files in C and in Python.
package readers
