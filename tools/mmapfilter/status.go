package main

import "errors"

// Exit statuses.
const (
	exitYes   = 0
	exitNo    = 1
	exitError = 2
	exitPipe  = 128 + 13
)

// errNo ends a command whose answer is no, without a message.
var errNo = errors.New("no")

// errReported ends a command that went on after errors that it has reported.
var errReported = errors.New("there were errors")

// A statusError is an error with its own exit status.
type statusError struct {
	error
	status int
}

func (e *statusError) Unwrap() error { return e.error }
