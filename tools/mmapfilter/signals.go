package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A signalError is the cause of a context that a signal has cancelled.
type signalError struct{ os.Signal }

func (e signalError) Error() string { return e.Signal.String() }

// endSignals returns the signals that end the work in an orderly way. Ignored signals stay
// ignored: nohup ignores SIGHUP for a command, and a shell without job control ignores SIGINT
// for commands in the background.
func endSignals() []os.Signal {
	var signals []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// untilSignal returns a context that the first signal cancels. The second signal ends the
// process at once.
//
// A broken pipe on standard output becomes an error of the write, so that it too ends the work
// in an orderly way.
func untilSignal(parent context.Context) context.Context {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := endSignals()
	if len(signals) == 0 { // without arguments, Notify would take all signals
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

// endBySignal ends the process by the signal that has cancelled ctx, if any. From an exit
// status alone, a shell could not tell that its loop must end too. endBySignal returns if the
// system has no signals.
func endBySignal(ctx context.Context) {
	var cause signalError
	if !errors.As(context.Cause(ctx), &cause) {
		return
	}
	process, err := os.FindProcess(os.Getpid())
	if err == nil && process.Signal(cause.Signal) == nil {
		time.Sleep(time.Second) // the signal may arrive after Signal returns
	}
}
