package server

import (
	"errors"
	"net"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// writeTime is how long a client may take to read what a write sends it.
const writeTime = 30 * time.Second

// patient is a connection whose writes wait no longer than that.
type patient struct{ net.Conn }

func (p patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// A client is a connection. One goroutine has all of it.
type client struct {
	s       *Server
	d       *directory
	conn    net.Conn
	in      *resp.Reader
	out     *resp.Writer
	id      int64
	name    string
	cmd     *command // the one that runs
	trusted bool     // has given the password, if there is one
	quits   bool     // the connection ends after this reply
}

func (c *client) serve() {
	defer c.s.leave(c)
	for !c.quits {
		if (!c.in.Waiting() || c.out.Long()) && c.out.Flush() != nil {
			return
		}
		args, err := c.in.Command()
		if broken := resp.ProtocolError(""); errors.As(err, &broken) {
			c.out.Error("ERR " + broken.Error())
		}
		if err != nil {
			break
		}
		c.do(args)
	}
	c.out.Flush()
}

// do does a command.
func (c *client) do(args [][]byte) {
	c.s.total.Add(1)
	c.cmd = lookUp(args[0])
	var err error
	switch {
	case c.cmd == nil:
		err = refusal("ERR unknown command '" + clip(args[0]) + "'")
	case !c.cmd.takes(len(args)):
		err = errWords
	case !c.trusted && !c.cmd.open:
		err = refusal("NOAUTH Authentication required.")
	default:
		err = c.cmd.run(c, args)
	}
	if err != nil {
		c.out.Error(errorText(c.cmd, args, err))
	}
}

// ok, int, bulks and pairs write a reply and return nil.
func (c *client) ok() error {
	c.out.Simple("OK")
	return nil
}

func (c *client) int(n int64) error {
	c.out.Int(n)
	return nil
}

func (c *client) bulks(texts []string) error {
	c.out.Array(len(texts))
	for _, t := range texts {
		c.out.Bulk(t)
	}
	return nil
}

// pairs writes names and values as a map.
func (c *client) pairs(pairs ...any) error {
	c.out.Map(len(pairs) / 2)
	for _, p := range pairs {
		c.value(p)
	}
	return nil
}

// value writes a string, an int64 or nil.
func (c *client) value(v any) {
	switch v := v.(type) {
	case string:
		c.out.Bulk(v)
	case int64:
		c.out.Int(v)
	case nil:
		c.out.Null()
	}
}

// same reports whether a word of a command is a given one, in whatever case.
func same(word []byte, name string) bool { return strings.EqualFold(string(word), name) }

func lower(name string) string { return strings.ToLower(name) }
