//go:build unix

package kill

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	foreign "github.com/mmapfilter/mmapfilter/tools/readers"
)

// A child is a process that the test started.
type child struct {
	*exec.Cmd
	role   string
	stdin  io.WriteCloser
	ended  chan struct{}
	killed bool // whether the parent has killed it
}

// start starts a child process of this program in a role.
func (p *parent) start(role string, number int) *child {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %q", roleVariable, role, number, p.seed, p.dir))
	return p.startProgram(role, cmd)
}

// startOthers starts a reader in each other language whose compiler or interpreter is installed.
func (p *parent) startOthers() {
	all, missing, err := foreign.Stress(filepath.Join(p.dir, "readers"))
	p.must(err)
	for _, what := range missing {
		p.t.Log("NOT TESTED:", what)
	}
	for i, r := range all {
		cmd := exec.Command(r.Command[0], r.Command[1:]...)
		out, err := cmd.StdoutPipe()
		p.must(err)
		c := p.startProgram("in "+r.Language, cmd)
		p.others = append(p.others, c)
		q, err := newProcess(p.dir, c.role, readers+i, p.seed, &p.said)
		p.must(err)
		go q.readIn(&session{in: c.stdin, out: bufio.NewReader(out)})
	}
}

// A session is a filter that a program in another language has open.
type session struct {
	in  io.WriteCloser
	out *bufio.Reader
	err error // set once the program has ended
}

// do sends a command, and returns the answer.
func (s *session) do(command string) (answer string) {
	if _, s.err = io.WriteString(s.in, command+"\n"); s.err == nil {
		answer, s.err = s.out.ReadString('\n')
	}
	return strings.TrimSuffix(answer, "\n")
}

func (s *session) Contains(key []byte) bool { return s.do(fmt.Sprintf("x%x", key)) != "0" }

func (s *session) ContainsBatch(keys [][]byte, found []bool) {
	answers := s.do(fmt.Sprintf("x%x", bytes.Join(keys, nil)))
	for i := range found {
		found[i] = i >= len(answers) || answers[i] != '0'
	}
}

func (s *session) Err() error   { return s.err }
func (s *session) Close() error { return s.in.Close() }

// readIn does what read does with a program in another language, which ends when readIn returns.
func (p *process) readIn(s *session) {
	defer s.Close()
	a := p.newAsker(0, countLookups+p.number)
	for p.get(wordEnd) == 0 && s.err == nil {
		file, reopen := p.get(wordFile), p.get(wordReopen)
		if code := s.do("o" + p.path); code != "0" && s.err == nil {
			p.violation("the file cannot be opened: %s", code)
			return
		}
		for n := 1 + p.rng.IntN(maxAsks); n > 0 && p.get(wordEnd) == 0 && p.get(wordReopen) == reopen; n-- {
			status := s.do("s") // makes the program notice that the file has been recovered
			if s.err != nil || status >= otherFile || !a.ask(s, file, false) {
				break
			}
			a.pause()
		}
	}
}

// otherFile is the status of a file that another one has replaced. Before that, its status is lower.
const otherFile = "3"

func (p *parent) startProgram(role string, cmd *exec.Cmd) (c *child) {
	c = &child{Cmd: cmd, role: role, ended: make(chan struct{})}
	if c.Stderr = &p.said; c.Stdout == nil {
		c.Stdout = &p.said
	}
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

// wait waits for the process to end, and reports whether it was killed. Any other failure of the process
// is a violation.
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
	case code != 0 && !(code == exitViolation && p.violated()): // with exitViolation, it has printed the violation
		p.violation("the process %q ended: %s", c.role, c.ProcessState)
	}
	return false
}

// endAll kills the readers that still run, which is the case only after an error.
func (p *parent) endAll() {
	for _, c := range slices.Concat(p.readers[:], p.others) {
		if c != nil && c.running() {
			c.kill()
			<-c.ended
		}
	}
}
