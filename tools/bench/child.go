package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
)

// childCommand makes this program a child of another process of the same program. It reads
// requests as lines of JSON from its standard input and answers each with one line. It ends when
// its input ends, so it does not outlive the process that started it.
const childCommand = "child"

// A request tells a child what to do.
type request struct {
	Do   string          // a name in tasks
	Args json.RawMessage // the arguments of that task
}

type answer struct {
	Error  string
	Result json.RawMessage
}

// A worker is the state that a child keeps between requests.
type worker struct {
	filter  *mmapfilter.Filter
	asked   uint64           // keys that it has looked up
	churner *churner         // that changes the filter
	replica *replica.Replica // that it keeps up to date
}

type task func(w *worker, args json.RawMessage) (any, error)

// taskOf makes a task from a method that takes its arguments as a struct.
func taskOf[A, R any](f func(*worker, A) (R, error)) task {
	return func(w *worker, args json.RawMessage) (any, error) {
		var a A
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
		return f(w, a)
	}
}

// A child is a process that runs childCommand.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	stderr  tail
	waitErr error
	waited  bool
}

// A tail keeps the beginning of the text that a child prints before it dies.
type tail struct{ strings.Builder }

func (t *tail) Write(p []byte) (int, error) {
	t.Builder.Write(p[:min(len(p), max(0, 2000-t.Len()))])
	return len(p), nil
}

// start starts a child with additions to its environment. It ends with the session at the latest.
func (s *session) start(env ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(s.ctx, self, childCommand)}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = &c.stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(bufio.NewReader(out))
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, c.ask("nothing", nil, nil)
}

// once starts a child, gives it one task, and ends it.
func (s *session) once(do string, args, result any, env ...string) error {
	c, err := s.start(env...)
	if err != nil {
		return err
	}
	return errors.Join(c.ask(do, args, result), c.end())
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// A taskError is an error of a task. Any other error of ask is an error of the child
// process.
type taskError string

func (e taskError) Error() string { return string(e) }

// tell sends a request.
func (c *child) tell(do string, args any) error {
	data, err := json.Marshal(args)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(c.in).Encode(request{do, data}); err != nil {
		return c.died(err)
	}
	return nil
}

// ask sends a request and waits for the answer.
func (c *child) ask(do string, args, result any) error {
	if err := c.tell(do, args); err != nil {
		return err
	}
	var a answer
	if err := c.out.Decode(&a); err != nil {
		return c.died(err)
	}
	if a.Error != "" {
		return taskError(a.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

// died returns the error of a child that does not answer.
func (c *child) died(err error) error {
	if ended := c.end(); ended != nil {
		err = ended
	}
	if said := strings.TrimSpace(c.stderr.String()); said != "" {
		first, _, _ := strings.Cut(said, "\n")
		return fmt.Errorf("child: %w: %s", err, first)
	}
	return fmt.Errorf("child: %w", err)
}

// end ends the child and waits until it has ended.
func (c *child) end() error {
	if !c.waited {
		c.in.Close()
		c.waitErr, c.waited = c.cmd.Wait(), true
	}
	return c.waitErr
}

func endAll(children []*child) (err error) {
	for _, c := range children {
		err = errors.Join(err, c.end())
	}
	return err
}

// runChild is the main loop of a child that knows some tasks. It returns the exit status.
func runChild(all map[string]task, in io.Reader, out io.Writer) int {
	w := new(worker)
	requests := make(chan request)
	go func() {
		for lines := json.NewDecoder(in); ; {
			var r request
			if err := lines.Decode(&r); err != nil {
				os.Exit(0) // exit at once, whatever is being measured
			}
			requests <- r
		}
	}()
	encoder := json.NewEncoder(out)
	for r := range requests {
		var a answer
		result, err := all[r.Do](w, r.Args)
		if err == nil {
			a.Result, err = json.Marshal(result)
		}
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if encoder.Encode(a) != nil {
			return 2
		}
	}
	return 0
}
