package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A ReplyError means that a process does not speak the protocol of [Serve], or could not do
// what was requested.
type ReplyError struct {
	Program, Request, Reply string
}

func (e *ReplyError) Error() string {
	return fmt.Sprintf("%s was asked %q and replied %q", e.Program, e.Request, e.Reply)
}

// process is a filter in another process.
type process struct {
	name    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// Start runs a program that speaks the protocol of [Serve], and makes a filter for n keys in
// it. It returns an error of starting the program, or a [*ReplyError].
func Start(ctx context.Context, program []string, n, seed uint64) (Filter, error) {
	if len(program) == 0 {
		return nil, errors.New("no program to start")
	}
	p := &process{name: strings.Join(program, " "), command: exec.CommandContext(ctx, program[0], program[1:]...)}
	p.command.Stderr = os.Stderr
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	var bytes int64
	if err := p.ask(fmt.Sprintf("make %d %d", n, seed), &bytes); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// ask sends a request, and parses the numbers of the reply.
func (p *process) ask(request string, into ...any) error {
	if _, err := fmt.Fprintln(p.in, request); err != nil {
		return fmt.Errorf("ask %s: %w", p.name, err)
	}
	if !p.out.Scan() {
		return &ReplyError{p.name, request, "nothing"}
	}
	reply := p.out.Text()
	if reply == unsupported {
		return fmt.Errorf("%s, asked %q: %w", p.name, request, ErrUnsupported)
	}
	numbers, ok := strings.CutPrefix(reply, "ok ")
	if !ok || len(strings.Fields(numbers)) != len(into) {
		return &ReplyError{p.name, request, reply}
	}
	if _, err := fmt.Sscan(numbers, into...); err != nil {
		return &ReplyError{p.name, request, reply}
	}
	return nil
}

func (p *process) count(verb string, first, n uint64) (c Count, err error) {
	var clock, processor int64
	err = p.ask(fmt.Sprintf("%s %d %d", verb, first, n), &c.Keys, &clock, &processor)
	c.Clock, c.Processor = time.Duration(clock), time.Duration(processor)
	if err == nil && c.Keys > n {
		err = &ReplyError{p.name, fmt.Sprintf("%s %d %d", verb, first, n), fmt.Sprint(c.Keys, " keys")}
	}
	return c, err
}

func (p *process) Add(first, n uint64) (Count, error)    { return p.count("add", first, n) }
func (p *process) Ask(first, n uint64) (Count, error)    { return p.count("ask", first, n) }
func (p *process) Remove(first, n uint64) (Count, error) { return p.count("remove", first, n) }

func (p *process) Bytes() (n int64) {
	if p.ask("bytes", &n) != nil {
		return 0
	}
	return n
}

// Close closes the input of the process, and waits for the process to end.
func (p *process) Close() error { return errors.Join(p.in.Close(), p.command.Wait()) }
