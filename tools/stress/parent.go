package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	foreign "github.com/mmapfilter/mmapfilter/tools/readers"
)

// A parent runs one life of the writer after another. It starts a writer, kills it or makes it
// end, has the file recovered, and examines what is left. Now and then it has a new file
// replace the old one.
type parent struct {
	*process
	readers [readers]*child
	others  []*child // readers in other languages
	missing []string // languages in which there can be no reader here, and why
	deletes uint64   // counted so far by countMoves
}

const readers = 4

// A child is a process that the parent started.
type child struct {
	*exec.Cmd
	role    string
	stdin   io.Closer
	started time.Time
	ended   chan struct{}
	killed  bool // by the parent
}

// start starts this program in another role.
func (p *parent) start(role string, number int) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return p.startProgram(role, exec.Command(program,
		"-role", role, "-number", fmt.Sprint(number), "-seed", fmt.Sprint(p.seed), "-dir", p.dir))
}

// startOthers starts a reader in each other language that has a compiler or an interpreter here.
func (p *parent) startOthers() error {
	all, missing, err := foreign.Stress(filepath.Join(p.dir, "readers"))
	if err != nil {
		return err
	}
	p.missing = missing
	for i, r := range all {
		args := append(r.Command[1:], p.path, filepath.Join(p.dir, "page"), fmt.Sprint(p.seed))
		for name, n := range map[string]int{
			"file": wordFile, "end": wordEnd, "reopen": wordReopen, "limit": wordLimit, "keys": pageKeys, "family": family, "copies": copies,
			"lookups": wordCounters + 8*(countOtherLookups+i), "nos": wordCounters + 8*(countOtherNos+i), "violations": wordCounters + 8*countViolations,
		} {
			args = append(args, fmt.Sprintf("%s=%d", name, n))
		}
		c, err := p.startProgram("in "+r.Language, exec.Command(r.Command[0], args...))
		if err != nil {
			return err
		}
		p.others = append(p.others, c)
	}
	return nil
}

// lookAtOthers reports readers in other languages that have ended: they have missed a key, or failed.
func (p *parent) lookAtOthers() {
	for _, c := range p.others {
		if !c.running() {
			p.wait(c)
		}
	}
}

func (p *parent) startProgram(role string, cmd *exec.Cmd) (c *child, err error) {
	c = &child{Cmd: cmd, role: role, ended: make(chan struct{}), started: time.Now()}
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

// endAll kills the readers that still run, after an error.
func (p *parent) endAll() {
	for _, c := range slices.Concat(p.readers[:], p.others) {
		if c != nil && c.running() {
			c.kill()
			<-c.ended
		}
	}
}
