package server

import (
	"bytes"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// MULTI, EXEC and DISCARD. Clients use them for pipelines. EXEC does the commands one after
// another; commands of other clients may come in between.

func multi(c *client, _ [][]byte) error {
	if c.multi {
		c.spoiled = true
		return refusal("ERR MULTI calls can not be nested")
	}
	c.multi, c.spoiled = true, false
	return c.ok()
}

// queue notes a command after MULTI.
func (c *client) queue(args [][]byte) error {
	kept := make([][]byte, len(args))
	for i, a := range args {
		kept[i] = bytes.Clone(a)
		c.queuedBytes += len(a) + 32 // with its slice header
	}
	if c.queuedBytes > resp.Known.Total {
		return refusal("ERR too many commands after MULTI")
	}
	c.queued = append(c.queued, kept)
	c.out.Simple("QUEUED")
	return nil
}

func exec(c *client, _ [][]byte) error {
	if !c.multi {
		return refusal("ERR EXEC without MULTI")
	}
	queued, spoiled := c.queued, c.spoiled
	c.unqueue()
	if spoiled {
		return refusal("EXECABORT Transaction discarded because of previous errors.")
	}
	c.out.Array(len(queued))
	for _, args := range queued {
		if c.out.Long() && c.flush() != nil {
			return nil
		}
		c.cmd = lookUp(args[0])
		c.run(args)
	}
	return nil
}

func discard(c *client, _ [][]byte) error {
	if !c.multi {
		return refusal("ERR DISCARD without MULTI")
	}
	c.unqueue()
	return c.ok()
}

func (c *client) unqueue() { c.multi, c.spoiled, c.queued, c.queuedBytes = false, false, nil, 0 }
