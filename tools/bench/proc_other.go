//go:build !linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// What needs files in /proc, which only Linux has.

func (m *memoryRun) share() error     { return unsupported() }
func (m *memoryRun) residency() error { return unsupported() }

func residencyTask(*worker, json.RawMessage) (any, error) { return nil, unsupported() }

func readsSoFar() (pageReads, error) { return pageReads{}, unsupported() }

func deviceWrites(string) int64 { return -1 }

func processorTime(int) (time.Duration, error) { return 0, unsupported() }

func unsupported() error { return fmt.Errorf("on %s: %w", runtime.GOOS, errors.ErrUnsupported) }

// newServe returns a command that says so: only Linux has what it runs.
func newServe(*session) command { return command{run: unsupported} }
