package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A child is a process that the parent started.
type child struct {
	*exec.Cmd
	role    string
	stdin   io.Closer
	started time.Time
	ended   chan struct{}
	killed  bool // by the parent
}

func (p *parent) start(role string, number int) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{role: role, ended: make(chan struct{}), started: time.Now()}
	c.Cmd = exec.Command(program,
		"-role", role, "-number", fmt.Sprint(number), "-seed", fmt.Sprint(p.seed), "-dir", p.dir)
	c.Stdout, c.Stderr = p.out, p.out
	if c.stdin, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.Wait()
		close(c.ended)
	}()
	return c, nil
}

func (c *child) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

func (c *child) kill() {
	c.killed = true
	c.Process.Kill()
}

// wait waits for the process to end, and reports whether it was killed. Any other bad end is a
// violation.
func (p *parent) wait(c *child) (killed bool) {
	select {
	case <-c.ended:
	case <-time.After(patience):
		p.violation("the process %q hangs", c.role)
		c.kill()
		<-c.ended
	}
	c.stdin.Close()
	code := c.ProcessState.ExitCode()
	switch {
	case code == -1 && c.killed:
		return true
	case code == exitGood:
		return false
	case code == exitViolation && p.violated(): // it has printed the violation
		return false
	}
	p.violation("the process %q ended: %s", c.role, c.ProcessState)
	return false
}
