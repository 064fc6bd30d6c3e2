//go:build unix

package kill

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

// A child is a process that the test started.
type child struct {
	*exec.Cmd
	role   string
	stdin  io.Closer
	ended  chan struct{}
	killed bool // by the parent
}

// start starts this program in another role.
func (p *parent) start(role string, number int) *child {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %q", roleVariable, role, number, p.seed, p.dir))
	return p.startProgram(role, cmd)
}

// startOthers starts a reader in each other language that has a compiler or an interpreter here.
func (p *parent) startOthers() {
	all, missing, err := foreign.Stress(filepath.Join(p.dir, "readers"))
	p.must(err)
	for _, what := range missing {
		p.t.Log("NOT TESTED:", what)
	}
	for i, r := range all {
		args := append(r.Command[1:], p.path, filepath.Join(p.dir, "page"), fmt.Sprint(p.seed))
		for name, n := range map[string]int{
			"file": wordFile, "end": wordEnd, "reopen": wordReopen, "limit": wordLimit, "keys": pageKeys, "family": family, "copies": copies,
			"lookups": wordCounters + 8*(countLookups+readers+i), "nos": wordCounters + 8*(countNos+readers+i), "violations": wordCounters + 8*countViolations,
		} {
			args = append(args, fmt.Sprintf("%s=%d", name, n))
		}
		p.others = append(p.others, p.startProgram("in "+r.Language, exec.Command(r.Command[0], args...)))
	}
}

func (p *parent) startProgram(role string, cmd *exec.Cmd) (c *child) {
	c = &child{Cmd: cmd, role: role, ended: make(chan struct{})}
	c.Stdout, c.Stderr = &p.said, &p.said
	var err error
	c.stdin, err = c.StdinPipe()
	p.must(err)
	p.must(c.Start())
	go func() {
		c.Wait()
		close(c.ended)
	}()
	return c
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
	switch code := c.ProcessState.ExitCode(); {
	case code == -1 && c.killed:
		return true
	case code != 0 && !(code == exitViolation && p.violated()): // otherwise it has printed the violation
		p.violation("the process %q ended: %s", c.role, c.ProcessState)
	}
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
