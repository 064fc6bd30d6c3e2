package server

import (
	"math"
	"os"
	"path"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// The commands of Redis about keys.

func del(c *client, args [][]byte) error {
	n := int64(0)
	c.changed = true
	for _, name := range args[1:] {
		removed, err := c.d.removeKey(string(name))
		if err != nil {
			return err
		}
		if removed {
			n++
		}
	}
	return c.int(n)
}

// removeKey removes the key of a name, if there is one.
func (d *directory) removeKey(name string) (removed bool, err error) {
	if k := d.find(name); k != nil {
		return d.remove(k, false)
	}
	return false, nil
}

func exists(c *client, args [][]byte) error {
	n := int64(0)
	for _, name := range args[1:] {
		if c.d.find(string(name)) != nil {
			n++
		}
	}
	return c.int(n)
}

func typeOf(c *client, args [][]byte) error {
	k, err := c.get(args[1], anyKind, nil)
	switch err {
	case nil:
		c.out.Simple(k.kind.typeName())
		k.mu.RUnlock()
	case errMissing:
		c.out.Simple("none")
		err = nil
	}
	return err
}

func rename(c *client, args [][]byte) error {
	if err := c.d.rename(string(args[1]), string(args[2])); err != nil {
		return err
	}
	return c.ok()
}

// expire answers EXPIRE, and PERSIST, which gives no time. A time in the past removes the key.
func expire(c *client, args [][]byte) error {
	at := int64(0)
	if c.cmd.name == "EXPIRE" {
		seconds, ok := resp.Number(args[2])
		now := time.Now().UnixMilli()
		if !ok {
			return errInteger
		}
		if seconds > (math.MaxInt64-now)/1000 || seconds < math.MinInt64/1000 {
			return refusal("ERR invalid expire time in 'expire' command")
		}
		at = max(now+1000*seconds, 1)
	}
	k := c.d.find(string(args[1]))
	if k == nil {
		return c.int(0)
	}
	changed, err := c.d.expire(k, at, args[min(3, len(args)):])
	if err != nil {
		return err
	}
	if c.d.find(k.name) == nil { // removes it if its time is over
		c.changed = true
	}
	return c.int(changed)
}

// expire sets a deadline if all words (NX, XX, GT, LT) allow it. It returns 1, or 0 if a word does
// not, or if nothing changes.
func (d *directory) expire(k *key, at int64, words [][]byte) (changed int64, err error) {
	k.mu.RLock() // so that the key is not removed; commands that use the filter go on
	defer k.mu.RUnlock()
	d.deadlines.Lock()
	defer d.deadlines.Unlock()
	old := k.expires.Load()
	for _, w := range words {
		may, known := map[string]bool{
			"nx": old == 0, "xx": old != 0, "gt": old != 0 && at > old, "lt": old == 0 || at < old,
		}[lower(string(w))]
		if !known {
			return 0, refusal("ERR Unsupported option " + clip(w))
		}
		if !may {
			return 0, nil
		}
	}
	if k.gone || at == 0 && old == 0 {
		return 0, nil
	}
	return 1, d.setDeadline(k, at)
}

func ttl(c *client, args [][]byte) error {
	k := c.d.find(string(args[1]))
	if k == nil {
		return c.int(-2)
	}
	at := k.expires.Load()
	if at == 0 {
		return c.int(-1)
	}
	return c.int(max(at-time.Now().UnixMilli()+500, 0) / 1000)
}

// matching returns the keys whose names match a pattern and, unless wanted is "", whose type is wanted.
func (d *directory) matching(pattern, wanted string) (found []string) {
	for _, k := range d.all() {
		if !glob(pattern, k.name) || d.find(k.name) == nil {
			continue
		}
		if wanted != "" {
			open, err := d.get(k.name, anyKind, nil)
			if err != nil {
				continue
			}
			is := open.kind.typeName()
			if open.mu.RUnlock(); !strings.EqualFold(is, wanted) {
				continue
			}
		}
		found = append(found, k.name)
	}
	return found
}

// glob reports whether a name matches a pattern of Redis. Patterns are as in package path, except
// that a slash is a byte like any other. A malformed pattern matches nothing.
func glob(pattern, name string) bool {
	noSlash := strings.NewReplacer("/", "\x00")
	matches, err := path.Match(noSlash.Replace(pattern), noSlash.Replace(name))
	return matches && err == nil
}

func keys(c *client, args [][]byte) error { return c.bulks(c.d.matching(string(args[1]), "")) }

// scan answers SCAN with all keys at once, since COUNT is only a hint, and with the cursor 0.
func scan(c *client, args [][]byte) error {
	cursor, ok := resp.Number(args[1])
	if !ok || cursor < 0 {
		return refusal("ERR invalid cursor")
	}
	pattern, wanted := "*", ""
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		switch {
		case len(rest) < 2:
			return errSyntax
		case same(rest[0], "MATCH"):
			pattern = string(rest[1])
		case same(rest[0], "TYPE"):
			wanted = string(rest[1])
		case same(rest[0], "COUNT"):
			if n, ok := resp.Number(rest[1]); !ok {
				return errInteger
			} else if n < 1 {
				return errSyntax
			}
		default:
			return errSyntax
		}
	}
	c.out.Array(2)
	c.out.Bulk("0")
	return c.bulks(c.d.matching(pattern, wanted))
}

func dbSize(c *client, _ [][]byte) error { return c.int(int64(len(c.d.all()))) }

func flushAll(c *client, args [][]byte) error {
	if len(args) == 2 && !same(args[1], "ASYNC") && !same(args[1], "SYNC") {
		return errSyntax
	}
	c.changed = true
	for _, k := range c.d.all() {
		if _, err := c.d.remove(k, false); err != nil {
			return err
		}
	}
	return c.ok()
}

// memory answers MEMORY USAGE with the bytes of the files of a key.
func memory(c *client, args [][]byte) error {
	if !same(args[1], "USAGE") {
		return errPart
	}
	if len(args) < 3 {
		return errWords
	}
	k := c.d.find(string(args[2]))
	if k == nil {
		c.out.Null()
		return nil
	}
	n := int64(0)
	for _, b := range beside {
		if info, err := os.Stat(k.path + b); err == nil {
			n += info.Size()
		}
	}
	return c.int(n)
}
