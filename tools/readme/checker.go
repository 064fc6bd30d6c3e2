package main

import (
	"fmt"
	"io"
	"time"
)

// A checker checks blocks in a directory.
type checker struct {
	dir      string
	limit    time.Duration     // for a command
	steps    map[string]string // the text of each step of the gate
	log      io.Writer         // for progress
	problems []problem
}

func (c *checker) report(line int, format string, args ...any) {
	c.problems = append(c.problems, problem{line, fmt.Sprintf(format, args...)})
}
