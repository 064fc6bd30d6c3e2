package server

import (
	"context"
	"errors"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// The commands CF.* and BF.*. Each returns the error that the client gets, or has written a reply. The
// first word of the name of a command is the kind of its key.

func (c *client) kind() kind { return kind(c.cmd.name[:2]) }

// get is directory.get, but does not hold up other clients while it opens or creates a filter, or
// while it waits for commands that use the key.
func (c *client) get(name []byte, want kind, s *settings) (*key, error) {
	k := c.d.find(string(name))
	switch {
	case k == nil && s == nil:
		return nil, errMissing
	case k != nil && k.mu.TryRLock():
		if k.ready() {
			return k.use(want)
		}
		k.mu.RUnlock()
	}
	c.detach()
	return c.d.get(string(name), want, s)
}

// key returns a key of the kind of the command. The filter of the key stays open until k.mu.RUnlock.
func (c *client) key(name []byte) (*key, error) { return c.get(name, c.kind(), nil) }

// keyOrNew is key, and makes the key if it is missing.
func (c *client) keyOrNew(name []byte) (*key, error) {
	k, err := c.key(name)
	if err == errMissing {
		s := c.fresh()
		k, err = c.get(name, s.kind, &s)
	}
	return k, err
}

// fresh returns the settings of a filter that a command creates if the client gives none.
func (c *client) fresh() settings {
	if c.kind() == bloom {
		return newBloom
	}
	s := newCuckoo
	s.rate = c.s.Rate
	return s
}

func reserve(c *client, args [][]byte) error {
	s := c.fresh()
	var err error
	switch {
	case s.kind == bloom:
		err = s.reserveBloom(args[2], args[3], args[4:])
	case len(args)%2 == 0:
		err = errWords
	default:
		err = s.reserveCuckoo(args[2], args[3:])
	}
	if err != nil {
		return err
	}
	err = c.d.create(string(args[1]), s)
	if err == nil {
		return c.ok()
	}
	if err == errExists {
		k, wrong := c.key(args[1])
		if wrong != nil {
			return wrong
		}
		k.mu.RUnlock()
	}
	return err
}

// add answers CF.ADD, CF.ADDNX and BF.ADD.
func add(c *client, args [][]byte) error {
	k, err := c.keyOrNew(args[1])
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	added, err := c.add(k, args[2])
	if err != nil {
		return err
	}
	c.out.Bool(added)
	return nil
}

// add adds an item to the filter of k. Only CF.ADD and CF.INSERT add an item that is already there.
func (c *client) add(k *key, item []byte) (added bool, err error) {
	c.change(k)
	if c.kind() == bloom || strings.HasSuffix(c.cmd.name, "NX") {
		added, err = k.filter.InsertUnique(item)
	} else {
		err = k.filter.Insert(item)
		added = err == nil
	}
	return added, c.wrote(k, err)
}

// change begins a write to the filter of k. If another write to it takes long, this one may, too,
// so the client is detached.
func (c *client) change(k *key) {
	if k.stuck.Load() {
		c.detach()
	}
	c.adds.Store(k)
}

// wrote ends a write to the filter of k. The reply may have to wait until the write is durable (see
// client.flush). A filter that grows is full only if something keeps it from growing, such as a full
// disk.
func (c *client) wrote(k *key, err error) error {
	c.adds.Store(nil)
	if k.stuck.Load() {
		k.stuck.Store(false)
	}
	if n := len(c.unsynced); c.s.Sync && (n == 0 || c.unsynced[n-1] != k) {
		c.unsynced = append(c.unsynced, k)
	}
	if errors.Is(err, mmapfilter.ErrFull) && k.expansion != 0 {
		return refusal("ERR the filter cannot grow: " + err.Error())
	}
	return err
}

// insert answers CF.INSERT, CF.INSERTNX, BF.INSERT and BF.MADD.
func insert(c *client, args [][]byte) error {
	in := insertion{settings: c.fresh(), items: args[2:]}
	if c.cmd.name != "BF.MADD" {
		if err := in.read(args[2:]); err != nil {
			return err
		}
	}
	made := &in.settings
	if in.noCreate {
		made = nil
	}
	k, err := c.get(args[1], in.kind, made)
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	if in.kind == bloom {
		return c.addAll(k, in.items)
	}
	unique := c.cmd.name == "CF.INSERTNX" // its replies are not truth values
	c.out.Array(len(in.items))
	for _, item := range in.items {
		added, err := c.add(k, item)
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

// addAll adds items until one cannot be added. The array then ends with the error, and has no elements
// for the items after that one.
func (c *client) addAll(k *key, items [][]byte) error {
	added := make([]bool, len(items))
	c.change(k)
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

// absent reports whether err says that the filter does not exist. A lookup then answers no instead
// of an error.
func absent(err error) bool { return err == errMissing || err == errWrongType }

func isIn(c *client, args [][]byte) error {
	k, err := c.key(args[1])
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

func areIn(c *client, args [][]byte) error {
	found := make([]bool, len(args)-2)
	k, err := c.key(args[1])
	if err == nil {
		k.filter.ContainsBatch(args[2:], found)
		k.mu.RUnlock()
	} else if !absent(err) {
		return err
	}
	c.bools(found)
	return nil
}

// count answers CF.COUNT, and BF.CARD, for which a wrong type is an error.
func count(c *client, args [][]byte) error {
	k, err := c.key(args[1])
	switch {
	case err == errMissing, err == errWrongType && c.kind() == cuckoo:
		return c.int(0)
	case err != nil:
		return err
	}
	defer k.mu.RUnlock()
	if c.kind() == bloom {
		return c.int(int64(k.filter.Len()))
	}
	n := k.filter.Count(args[2])
	if err := k.filter.Err(); err != nil { // a fault, perhaps: the count is unknown
		return err
	}
	return c.int(int64(n))
}

func cfDel(c *client, args [][]byte) error {
	k, err := c.key(args[1])
	if absent(err) {
		return refusal("Not found")
	}
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	c.change(k)
	deleted, err := k.filter.Delete(args[2])
	if err = c.wrote(k, err); err != nil {
		return err
	}
	c.out.Bool(deleted)
	return nil
}

// cfCompact answers CF.COMPACT with a rebuild, in which the deletes that wait take effect (K7).
func cfCompact(c *client, args [][]byte) error {
	k, err := c.key(args[1])
	if err == errMissing {
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

// filterInfo answers CF.INFO and BF.INFO. A word after BF.INFO asks for one of the values. The
// words have the same order as the values.
func filterInfo(c *client, args [][]byte) error {
	k, err := c.key(args[1])
	if err != nil {
		return err
	}
	defer k.mu.RUnlock()
	s := k.filter.Stats()
	if k.kind == cuckoo {
		return c.pairs("Size", s.FileBytes, "Number of buckets", int64(s.Lines), "Number of filters", int64(1),
			"Number of items inserted", int64(s.Len), "Number of items deleted", int64(0),
			"Bucket size", k.bucketSize, "Expansion rate", k.expansion, "Max iterations", k.iterations)
	}
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
