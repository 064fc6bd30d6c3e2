package server

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// A client is a connection. One goroutine uses all of it.
type client struct {
	s       *Server
	d       *directory
	conn    net.Conn
	in      *resp.Reader
	out     *resp.Writer
	id      int64
	name    string
	cmd     *command // the command that runs
	trusted bool     // has given the password, or needs none
	quits   bool     // the connection ends after this reply

	multi       bool       // after MULTI
	spoiled     bool       // a command after MULTI was wrong: EXEC will do no command
	queued      [][][]byte // the commands after MULTI
	queuedBytes int

	writing  atomic.Int64 // Server.ticks when the write began that waits for the client; 0 without such a write
	unsynced []*key       // keys of the writes whose replies wait for a flush; see Config.Sync
}

func (c *client) serve() {
	defer c.s.leave(c)
	for !c.quits {
		if c.out.Long() && c.flush() != nil {
			return
		}
		args, err := c.in.Command()
		if broken := resp.ProtocolError(""); errors.As(err, &broken) {
			c.out.Error("ERR " + broken.Error())
			break
		}
		if err != nil {
			return // Read has flushed
		}
		c.do(args)
	}
	c.flush()
}

// Read reads what the client sends next. It may have to wait for that, so it first sends all
// replies, even if the client has already sent the beginning of another command, or empty lines.
func (c *client) Read(b []byte) (int, error) {
	if err := c.flush(); err != nil {
		return 0, err
	}
	return c.conn.Read(b)
}

// Write writes replies. It sets no deadline, which would take as long as a lookup: see Server.hurry.
func (c *client) Write(b []byte) (int, error) {
	c.writing.Store(c.s.ticks.Load())
	defer c.writing.Store(0)
	return c.conn.Write(b)
}

// flush writes the replies that are kept. If a reply means that a write is durable, it makes the writes
// durable first: one sync of a filter serves all clients that wait for it. If a sync fails, nobody
// knows which writes are durable, and the client gets one error in place of all replies.
func (c *client) flush() error {
	var err error
	if c.s.Sync {
		for _, k := range c.unsynced {
			err = errors.Join(err, k.sync())
		}
		err = errors.Join(err, c.d.syncNames())
		c.unsynced = c.unsynced[:0]
	}
	if err != nil {
		c.quits = true
		c.out.Drop()
		c.out.Error("ERR not durable: " + err.Error())
	}
	return errors.Join(c.out.Flush(), err)
}

// do does a command, or notes it after MULTI.
func (c *client) do(args [][]byte) {
	c.s.total.Add(1)
	c.cmd = lookUp(args[0])
	var err error
	switch {
	case same(args[0], "POST") || same(args[0], "Host:"): // a browser, sent here by a hostile page
		c.quits = true
		return
	case c.cmd == nil:
		err = refusal("ERR unknown command '" + clip(args[0]) + "'")
	case !c.cmd.takes(len(args)):
		err = errWords
	case !c.trusted && !c.cmd.open:
		err = refusal("NOAUTH Authentication required.")
	case c.multi && !c.cmd.now:
		err = c.queue(args)
	default:
		c.run(args)
		return
	}
	if err != nil {
		c.spoiled = true
		c.out.Error(errorText(c.cmd, args, err))
	}
}

// run does c.cmd.
func (c *client) run(args [][]byte) {
	if err := c.cmd.run(c, args); err != nil {
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
