package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A signalError is the cause of a context that a signal has ended.
type signalError struct{ os.Signal }

func (e signalError) Error() string { return e.Signal.String() }

// endSignals are the signals that end the work in order. One that is ignored
// stays so: nohup ignores SIGHUP for a command, a shell without job control
// SIGINT for one in the background.
func endSignals() []os.Signal {
	var signals []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// untilSignal gives a context that the first signal ends. The second one then
// ends the process at once.
//
// A broken pipe on standard output becomes an error of the write, so that what
// ends for it does so in order too.
func untilSignal(parent context.Context) context.Context {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := endSignals()
	if len(signals) == 0 { // Notify would take that for all there are
		return parent
	}
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	signal.Notify(received, signals...)
	go func() {
		s := <-received
		signal.Reset(signals...)
		cancel(signalError{s})
	}()
	return ctx
}

// endBySignal ends the process by the signal that has ended ctx, if one has.
// From an exit status alone a shell would not know that its loop is to end too.
// It returns where the system has no signals.
func endBySignal(ctx context.Context) {
	var cause signalError
	if !errors.As(context.Cause(ctx), &cause) {
		return
	}
	process, err := os.FindProcess(os.Getpid())
	if err == nil && process.Signal(cause.Signal) == nil {
		time.Sleep(time.Second) // it may come after Signal has returned
	}
}
