package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
)

// childCommand makes this program a child of another process of the same program: a server of net/rpc on
// its standard input and output. It ends when its input ends, so it does not outlive the process that
// started it.
const childCommand = "child"

// A worker is the state that a child keeps between calls. A parent calls its exported methods.
type worker struct {
	filter  *mmapfilter.Filter
	asked   uint64           // keys that it has looked up
	churner *churner         // changes the filter
	replica *replica.Replica // follows the filter of another child
}

// Nothing does nothing. A parent calls it to see whether the child is running.
func (w *worker) Nothing(struct{}, *struct{}) error { return nil }

// A pipe is the connection of a parent and a child: where one reads and where it writes.
type pipe struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipe) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// runChild serves the calls of the parent.
func runChild() {
	rpc.RegisterName("worker", new(worker))
	jsonrpc.ServeConn(pipe{lastInput{os.Stdin}, os.Stdout})
}

// A lastInput is an input whose end ends the process, whatever is being measured.
type lastInput struct{ io.ReadCloser }

func (l lastInput) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil {
		os.Exit(0)
	}
	return n, nil
}

// A child is a process that runs childCommand.
type child struct {
	cmd     *exec.Cmd
	client  *rpc.Client
	in      io.Closer
	stderr  bytes.Buffer
	waitErr error
	waited  bool
}

// start starts a child with additions to its environment. The child ends with the session at the
// latest.
func (s *session) start(env ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(s.ctx, self, childCommand)}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.client = in, jsonrpc.NewClient(pipe{out, in})
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, c.ask("Nothing", struct{}{}, nil)
}

// once starts a child, makes one call, and ends it.
func (s *session) once(method string, args, result any, env ...string) error {
	c, err := s.start(env...)
	if err != nil {
		return err
	}
	return errors.Join(c.ask(method, args, result), c.end())
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// ask calls a method of the worker in the child. An error of the method is an rpc.ServerError. Any
// other error means that the child has died.
func (c *child) ask(method string, args, result any) error {
	err := c.client.Call("worker."+method, args, result)
	if said := rpc.ServerError(""); err == nil || errors.As(err, &said) {
		return err
	}
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
