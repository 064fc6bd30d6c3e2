package server

import (
	"errors"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// The commands of Redis about keys.

func del(c *client, args [][]byte) error {
	n := int64(0)
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
	name, err := c.d.typeName(string(args[1]))
	if errors.Is(err, errMissing) {
		name, err = "none", nil
	}
	if err == nil {
		c.out.Simple(name)
	}
	return err
}

// typeName returns what TYPE answers. It opens the filter.
func (d *directory) typeName(name string) (string, error) {
	k, err := d.get(name, anyKind)
	if err != nil {
		return "", err
	}
	defer k.mu.RUnlock()
	return k.kind.typeName(), nil
}

func rename(c *client, args [][]byte) error {
	if err := c.d.rename(string(args[1]), string(args[2])); err != nil {
		return err
	}
	return c.ok()
}

// expire answers EXPIRE. A time that is over removes the key.
func expire(c *client, args [][]byte) error {
	now := time.Now().UnixMilli()
	seconds, ok := resp.Number(args[2])
	switch {
	case !ok:
		return errInteger
	case seconds > (math.MaxInt64-now)/1000 || seconds < math.MinInt64/1000:
		return refusal("ERR invalid expire time in 'expire' command")
	case seconds <= 0:
		return del(c, args[:2])
	}
	changed, err := c.d.setDeadline(string(args[1]), now+1000*seconds)
	if err != nil {
		return err
	}
	return c.int(changed)
}

func persist(c *client, args [][]byte) error {
	changed, err := c.d.setDeadline(string(args[1]), 0)
	if err != nil {
		return err
	}
	return c.int(changed)
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

// matching returns the names that match a pattern, of those whose time is not over.
func (d *directory) matching(pattern []byte, names []string) (found []string) {
	for _, name := range names {
		if glob(string(pattern), name) && d.find(name) != nil {
			found = append(found, name)
		}
	}
	return found
}

func keys(c *client, args [][]byte) error { return c.bulks(c.d.matching(args[1], c.d.names())) }

// scan answers with the keys of whole buckets. A cursor is the number of the next bucket.
func scan(c *client, args [][]byte) error {
	cursor, ok := resp.Number(args[1])
	if !ok || cursor < 0 {
		return refusal("ERR invalid cursor")
	}
	pattern, wanted, count := []byte("*"), "", int64(10)
	for rest := args[2:]; len(rest) > 0; rest = rest[2:] {
		switch {
		case len(rest) < 2:
			return errSyntax
		case same(rest[0], "MATCH"):
			pattern = rest[1]
		case same(rest[0], "TYPE"):
			wanted = string(rest[1])
		case same(rest[0], "COUNT"):
			if count, ok = resp.Number(rest[1]); !ok {
				return errInteger
			}
		default:
			return errSyntax
		}
	}
	if count < 1 {
		return errSyntax
	}
	var names []string
	for ; cursor < buckets && int64(len(names)) < count; cursor++ {
		names = c.d.buckets[cursor].names(names)
	}
	names = c.d.matching(pattern, names)
	if wanted != "" {
		names = c.d.ofType(wanted, names)
	}
	if cursor >= buckets {
		cursor = 0
	}
	c.out.Array(2)
	c.out.Bulk(strconv.FormatInt(cursor, 10))
	return c.bulks(names)
}

// ofType returns the keys of a type.
func (d *directory) ofType(wanted string, names []string) (found []string) {
	for _, name := range names {
		if is, err := d.typeName(name); err == nil && same([]byte(is), wanted) {
			found = append(found, name)
		}
	}
	return found
}

func dbSize(c *client, _ [][]byte) error { return c.int(c.d.size()) }

func flushAll(c *client, args [][]byte) error {
	if len(args) == 2 && !same(args[1], "ASYNC") && !same(args[1], "SYNC") {
		return errSyntax
	}
	for _, name := range c.d.names() {
		if _, err := c.d.removeKey(name); err != nil {
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
	for _, beside := range []string{"", ".hashes", ".stash", ".expire"} {
		if info, err := os.Stat(k.path + beside); err == nil {
			n += info.Size()
		}
	}
	return c.int(n)
}
