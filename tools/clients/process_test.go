package clients

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A process is a client in another language: client.py or client.js.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newProcess(t testing.TB, name string, args ...any) client {
	t.Helper()
	words := strings.Fields(fmt.Sprintln(args...))
	p := &process{t: t, cmd: exec.Command(name, words...)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	p.out = bufio.NewReader(out)
	must(t, p.cmd.Start())
	return p
}

func newPython(t testing.TB, s *server, version int) client {
	return newProcess(t, python, "client.py", s.port, s.password)
}

func newNode(t testing.TB, s *server, version int) client {
	return newProcess(t, "node", "client.js", s.port, version, s.password)
}

// python is Debian's, because Debian's packages of modules are for it.
const python = "/usr/bin/python3"

func (p *process) close() {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Error(err)
	}
}

func (p *process) send(commands [][]string) []any { return p.ask(false, commands) }
func (p *process) call(words []string) any        { return p.ask(true, [][]string{words})[0] }

func (p *process) ask(call bool, commands [][]string) []any {
	p.t.Helper()
	asked := make([][]string, len(commands))
	for i, words := range commands {
		for _, w := range words {
			asked[i] = append(asked[i], characters(w))
		}
	}
	request, err := json.Marshal(map[string]any{"call": call, "commands": asked})
	if err == nil {
		_, err = p.in.Write(append(request, '\n'))
	}
	var line string
	if err == nil {
		line, err = p.out.ReadString('\n')
	}
	var values any
	if err == nil {
		values, err = decode(line)
	}
	if err != nil {
		p.t.Error(err) // a test may call this from goroutines of its own
		return slices.Repeat([]any{err}, len(commands))
	}
	return values.([]any)
}

// decode returns the value of a line of JSON.
func decode(line string) (any, error) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("%q: %w", line, err)
	}
	return fromJSON(value), nil
}

func fromJSON(v any) any {
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return err
		}
		return n
	case string:
		return bytesOf(v)
	case []any:
		for i := range v {
			v[i] = fromJSON(v[i])
		}
	case map[string]any:
		if text, ok := v["error"]; ok {
			return errors.New(text.(string))
		}
		for name := range v {
			v[name] = fromJSON(v[name])
		}
	}
	return v
}

// characters returns a text with one character for each byte; bytesOf returns the bytes of such a text.
func characters(bytes string) string {
	var b strings.Builder
	for i := range len(bytes) {
		b.WriteRune(rune(bytes[i]))
	}
	return b.String()
}

func bytesOf(text string) string {
	var b strings.Builder
	for _, c := range text {
		b.WriteByte(byte(c))
	}
	return b.String()
}
