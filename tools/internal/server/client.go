package server

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// A client is a connection. Only one goroutine at a time uses it, except for its atomic fields.
type client struct {
	*buffers // nil while the client is idle
	link
	s       *Server
	d       *directory
	id      int64
	name    string
	cmd     *command // the command that runs
	trusted bool     // has given the password, or needs none
	resp3   bool     // has asked for version 3 of the protocol
	quits   bool     // the connection ends after this reply
	midway  bool     // in a turn, after its first read

	multi       bool       // after MULTI
	spoiled     bool       // a command after MULTI was wrong: EXEC will do no command
	queued      [][][]byte // the commands after MULTI
	queuedBytes int

	writing  atomic.Int64        // Server.ticks at the start of the write that waits for the client; 0 if none waits
	adds     atomic.Pointer[key] // the key whose filter is being changed; see key.stuck
	changed  bool                // a kept reply is about a write (see Config.Sync) or a removal that flush must first make durable
	unsynced []*key              // the keys of these writes
}

// Buffers are what a client needs while it has something to do.
type buffers struct {
	in  *resp.Reader
	out *resp.Writer
}

var freeBuffers = sync.Pool{New: func() any { return &buffers{resp.NewReader(nil), resp.NewWriter(nil)} }}

func (c *client) limits() resp.Limits {
	if c.trusted {
		return resp.Known
	}
	return resp.Unknown
}

// turn reads once, does the commands that it has read, and sends the replies. It reads on only if
// the last command is incomplete.
func (c *client) turn() {
	c.buffers = freeBuffers.Get().(*buffers)
	c.in.Reset(c, c.limits())
	c.out.Reset(c, c.resp3)
	if err := c.in.Wait(); err != nil {
		c.quits = err != errNothing
	}
	for c.midway = true; !c.quits && c.in.Buffered() > 0; {
		c.next()
	}
	if c.midway = false; c.flush() != nil {
		c.quits = true
	}
	c.resp3 = c.out.RESP3
	c.in.Reset(nil, resp.Unknown)
	c.out.Reset(nil, false)
	freeBuffers.Put(c.buffers)
	c.buffers = nil
}

// next reads a command and does it.
func (c *client) next() {
	if c.out.Long() && c.flush() != nil {
		c.quits = true
		return
	}
	args, err := c.in.Command()
	if broken := resp.ProtocolError(""); errors.As(err, &broken) {
		c.out.Error("ERR " + broken.Error())
	}
	if err != nil {
		c.quits = true
		return
	}
	c.do(args)
}

// errNothing says that the client has sent nothing yet.
var errNothing = errors.New("nothing to read")

// Read reads what the client sends next. In the middle of a command Read may have to wait for the
// client, so it first sends all replies, even if the client has already sent the beginning of another
// command, or empty lines. Other clients do not wait meanwhile, because the commands after the first
// read of a turn are done beside theirs.
func (c *client) Read(b []byte) (int, error) {
	if !c.midway {
		return c.read(b)
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	return c.readAlone(b)
}

// Write writes replies. It sets no deadline, because that takes as long as a lookup: see
// Server.hurry.
func (c *client) Write(b []byte) (int, error) {
	c.writing.Store(c.s.ticks.Load())
	defer c.writing.Store(0)
	return c.write(b)
}

// flush writes the replies that are kept. If a reply means that a write is durable, flush first
// makes the writes durable. One sync of a filter serves all clients that wait for it. If a sync
// fails, nobody knows which writes are durable, and the client gets one error in place of all
// replies.
func (c *client) flush() error {
	var err error
	if c.changed {
		for _, k := range c.unsynced {
			err = errors.Join(err, k.sync())
		}
		err = errors.Join(err, c.d.syncNames())
		c.changed, c.unsynced = false, nil
	}
	if err != nil {
		c.quits = true
		c.out.Drop()
		c.out.Error("ERR not durable: " + err.Error())
	}
	return errors.Join(c.out.Flush(), err)
}

// do does a command or, after MULTI, notes it.
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

// run does c.cmd. A command that waits for the disk, or takes long, is done beside the commands of
// other clients.
func (c *client) run(args [][]byte) {
	if c.s.Sync && c.cmd.writes() {
		c.changed = true
	}
	if c.cmd.long || c.changed {
		c.detach()
	}
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

// same reports whether a word of a command is name, in upper or lower case.
func same(word []byte, name string) bool { return strings.EqualFold(string(word), name) }

func lower(name string) string { return strings.ToLower(name) }
