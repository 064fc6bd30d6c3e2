package server

import (
	"context"
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// The commands CF.* and BF.*. Each returns the error that the client gets, or has written a reply.

// cuckooDefaults are those of a cuckoo filter that a command makes without a word on it.
func (c *client) cuckooDefaults() settings {
	s := newCuckoo
	s.rate = c.s.Rate
	return s
}

func cfReserve(c *client, args [][]byte) error {
	if len(args)%2 == 0 {
		return errWords
	}
	s, err := reserveCuckoo(args[2], args[3:], c.s.Rate)
	if err != nil {
		return err
	}
	return c.reserve(args[1], s)
}

func bfReserve(c *client, args [][]byte) error {
	s, err := reserveBloom(args[2], args[3], args[4:])
	if err != nil {
		return err
	}
	return c.reserve(args[1], s)
}

// reserve makes a key that does not exist.
func (c *client) reserve(name []byte, s settings) error {
	err := c.d.create(string(name), s)
	if err == nil {
		return c.ok()
	}
	if errors.Is(err, errExists) {
		k, wrong := c.d.get(string(name), s.kind)
		if wrong != nil {
			return wrong
		}
		k.mu.RUnlock()
	}
	return err
}

func cfAdd(c *client, args [][]byte) error   { return c.addOne(args, c.cuckooDefaults(), false) }
func cfAddNX(c *client, args [][]byte) error { return c.addOne(args, c.cuckooDefaults(), true) }
func bfAdd(c *client, args [][]byte) error   { return c.addOne(args, newBloom, true) }

func (c *client) addOne(args [][]byte, s settings, unique bool) error {
	k, err := c.d.getOrCreate(string(args[1]), s)
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	added, err := c.add(k, args[2], unique)
	if err != nil {
		return err
	}
	c.out.Bool(added)
	return nil
}

// add adds an item to the filter of k.
func (c *client) add(k *key, item []byte, unique bool) (added bool, err error) {
	if unique {
		added, err = k.filter.InsertUnique(item)
	} else {
		err = k.filter.Insert(item)
		added = err == nil
	}
	return added, c.wrote(k, err)
}

// wrote ends a write to the filter of k: if replies are to mean that it is durable, it makes it so. A
// filter whose writes fail is opened again by the next command. One that grows is full only if something
// keeps it from growing, such as a full disk.
func (c *client) wrote(k *key, err error) error {
	if err == nil && c.d.sync {
		err = k.filter.Sync()
	}
	if errors.Is(err, mmapfilter.ErrFailed) {
		k.broken.Store(true)
	}
	if errors.Is(err, mmapfilter.ErrFull) && k.expansion != 0 {
		return refusal("ERR the filter cannot grow: " + err.Error())
	}
	return err
}

func cfInsert(c *client, args [][]byte) error   { return c.cuckooInsert(args, false) }
func cfInsertNX(c *client, args [][]byte) error { return c.cuckooInsert(args, true) }

func (c *client) cuckooInsert(args [][]byte, unique bool) error {
	in := insertion{settings: c.cuckooDefaults()}
	k, err := c.insertInto(&in, args)
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	c.out.Array(len(in.items))
	for _, item := range in.items {
		added, err := c.add(k, item, unique)
		full := errors.Is(err, mmapfilter.ErrFull)
		switch {
		case err != nil && !full:
			c.out.Error(errorText(c.cmd, args, err))
		case full && (unique || !c.out.RESP3):
			c.out.Int(-1)
		case unique && added:
			c.out.Int(1)
		case unique:
			c.out.Int(0)
		default:
			c.out.Bool(added)
		}
	}
	return nil
}

// insertInto reads the words of an INSERT and returns its key, open.
func (c *client) insertInto(in *insertion, args [][]byte) (*key, error) {
	if err := in.read(args[2:]); err != nil {
		return nil, err
	}
	if in.noCreate {
		return c.d.get(string(args[1]), in.kind)
	}
	return c.d.getOrCreate(string(args[1]), in.settings)
}

func bfMAdd(c *client, args [][]byte) error {
	k, err := c.d.getOrCreate(string(args[1]), newBloom)
	if err != nil {
		return err
	}
	return c.addAll(k, args, args[2:])
}

func bfInsert(c *client, args [][]byte) error {
	in := insertion{settings: newBloom}
	k, err := c.insertInto(&in, args)
	if err != nil {
		return err
	}
	return c.addAll(k, args, in.items)
}

// addAll adds items until one cannot be added. The error is the last element of a shorter array then. It
// unlocks k.mu.
func (c *client) addAll(k *key, args, items [][]byte) error {
	defer k.mu.RUnlock()
	added := make([]bool, len(items))
	n, err := k.filter.InsertUniqueBatch(items, added)
	if err = c.wrote(k, err); err == nil {
		c.bools(added)
		return nil
	}
	c.out.Array(n + 1)
	for _, a := range added[:n] {
		c.out.Bool(a)
	}
	return err
}

func (c *client) bools(all []bool) {
	c.out.Array(len(all))
	for _, b := range all {
		c.out.Bool(b)
	}
}

// absent reports whether err says that there is no such filter: a lookup then says no, without an error.
func absent(err error) bool { return errors.Is(err, errMissing) || errors.Is(err, errWrongType) }

func cfExists(c *client, args [][]byte) error  { return c.exists(cuckoo, args) }
func bfExists(c *client, args [][]byte) error  { return c.exists(bloom, args) }
func cfMExists(c *client, args [][]byte) error { return c.mexists(cuckoo, args) }
func bfMExists(c *client, args [][]byte) error { return c.mexists(bloom, args) }

func (c *client) exists(want kind, args [][]byte) error {
	k, err := c.d.get(string(args[1]), want)
	found := false
	if err == nil {
		found = k.filter.Contains(args[2])
		k.mu.RUnlock()
	} else if !absent(err) {
		return err
	}
	c.out.Bool(found)
	return nil
}

func (c *client) mexists(want kind, args [][]byte) error {
	found := make([]bool, len(args)-2)
	k, err := c.d.get(string(args[1]), want)
	if err == nil {
		k.filter.ContainsBatch(args[2:], found)
		k.mu.RUnlock()
	} else if !absent(err) {
		return err
	}
	c.bools(found)
	return nil
}

func cfCount(c *client, args [][]byte) error {
	k, err := c.d.get(string(args[1]), cuckoo)
	if absent(err) {
		return c.int(0)
	}
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	return c.int(int64(k.filter.Count(args[2])))
}

func cfDel(c *client, args [][]byte) error {
	k, err := c.d.get(string(args[1]), cuckoo)
	if absent(err) {
		return refusal("Not found")
	}
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	deleted, err := k.filter.Delete(args[2])
	if err = c.wrote(k, err); err != nil {
		return err
	}
	c.out.Bool(deleted)
	return nil
}

// cfCompact answers CF.COMPACT with a rebuild, which carries out the deletes that wait (K7).
func cfCompact(c *client, args [][]byte) error {
	k, err := c.d.get(string(args[1]), cuckoo)
	if errors.Is(err, errMissing) {
		return refusal("Cuckoo filter was not found")
	}
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	if k.expansion != 0 {
		if err := k.filter.Rebuild(context.Background(), nil); err != nil {
			return err
		}
	}
	return c.ok()
}

func cfInfo(c *client, args [][]byte) error {
	k, err := c.d.get(string(args[1]), cuckoo)
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	s := k.filter.Stats()
	return c.pairs("Size", s.FileBytes, "Number of buckets", int64(s.Lines), "Number of filters", int64(1),
		"Number of items inserted", int64(s.Len), "Number of items deleted", int64(0),
		"Bucket size", k.bucketSize, "Expansion rate", k.expansion, "Max iterations", k.iterations)
}

func bfCard(c *client, args [][]byte) error {
	k, err := c.d.get(string(args[1]), bloom)
	if errors.Is(err, errMissing) {
		return c.int(0)
	}
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	return c.int(int64(k.filter.Len()))
}

func bfInfo(c *client, args [][]byte) error {
	k, err := c.d.get(string(args[1]), bloom)
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	s := k.filter.Stats()
	expansion := any(k.expansion)
	if k.expansion == 0 {
		expansion = nil
	}
	pairs := []any{"Capacity", int64(s.Capacity), "Size", s.FileBytes, "Number of filters", int64(1),
		"Number of items inserted", int64(s.Len), "Expansion rate", expansion}
	if len(args) == 2 {
		return c.pairs(pairs...)
	}
	for i, word := range []string{"CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION"} {
		if same(args[2], word) {
			c.out.Array(1)
			c.value(pairs[2*i+1])
			return nil
		}
	}
	return refusal("Invalid information value")
}
