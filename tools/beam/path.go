package main

import (
	"path/filepath"
	"strings"
)

// isURL reports whether a path is on a filesystem of Beam other than the machine's own.
func isURL(path string) bool { return strings.Contains(path, "://") }

// absolute makes a path independent of the directory that a worker runs in.
func absolute(path string) string {
	if isURL(path) {
		return path
	}
	if abs, err := filepath.Abs(path); err == nil && !strings.HasSuffix(path, "/") {
		return abs
	}
	return path
}

// split cuts a path or a URL before its last element.
func split(path string) (dir, name string) {
	if isURL(path) {
		i := strings.LastIndexByte(path, '/')
		return path[:i], path[i+1:]
	}
	dir, name = filepath.Split(path)
	return filepath.Clean(dir), name
}
