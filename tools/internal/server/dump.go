package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// SCANDUMP and LOADCHUNK. A dump is a snapshot of a key, with its hashes, taken when a client asks
// for its first chunk. These are its parts, with the positions that SCANDUMP answers and LOADCHUNK
// takes:
//
//	1            dumpHeader and the kind
//	n<<24 + 2    the first chunk of dump n: three offsets in the dump, of 64 bits, little-endian, and
//	             then the bytes of the chunk. The offsets are those where the chunk begins, where
//	             NAME.mmf ends and NAME.hashes begins, and where NAME.hashes ends
//	n<<24 + 3    the next one, and so on
//
// SCANDUMP takes the position of one part and answers the next part, with its position. So two clients
// that dump a key at once get two dumps. Positions are below 2^52, for clients in JavaScript.
const (
	dumpHeader  = "mmapfilter dump 1 "
	chunkBytes  = 4 << 20
	prefixBytes = 3 * 8
	chunkBits   = 24
	dumpBits    = 52 - chunkBits
	mostDumps   = 8 // at once
)

// A dumps has the dumps that clients are reading.
type dumps struct {
	sync.Mutex
	last  int64           // number of the last dump
	dumps map[int64]*dump // nil for one that is being made
	load  sync.Mutex      // one chunk is loaded at a time
}

type dump struct {
	key    string
	file   *os.File // it has no name, so the system removes it however the server ends
	hashes int64    // where NAME.hashes begins
	size   int64
	used   time.Time
}

// sweep ends the dumps that have not been used since idle.
func (ds *dumps) sweep(idle time.Time) {
	ds.Lock()
	defer ds.Unlock()
	for n, p := range ds.dumps {
		if p != nil && p.used.Before(idle) {
			p.file.Close()
			delete(ds.dumps, n)
		}
	}
}

// position reads the position that is the second argument of both commands.
func (c *client) position(text []byte, least int64) (at int64, err error) {
	at, ok := resp.Number(text)
	if !ok && c.kind() == bloom {
		return 0, refusal("Second argument must be numeric")
	}
	if !ok || at < least {
		return 0, errPosition
	}
	return at, nil
}

func scanDump(c *client, args [][]byte) error {
	at, err := c.position(args[2], 0)
	if err != nil {
		return err
	}
	k, err := c.key(args[1])
	if err != nil {
		return err
	}
	empty := k.filter.Len() == 0
	k.mu.RUnlock()
	next, part := int64(1), []byte(dumpHeader+c.kind())
	switch {
	case at > 0:
		next, part, err = c.d.chunk(k.name, c.kind(), at)
	case empty:
		next, part = 0, nil
	}
	if err != nil {
		return err
	}
	c.out.Array(2)
	c.out.Int(next)
	if next == 0 && c.kind() == cuckoo {
		c.out.Null()
	} else {
		c.out.Bulk(string(part))
	}
	return nil
}

// chunk returns the part after a position, and the position of this part; 0 after the last
// chunk.
func (d *directory) chunk(name string, kind kind, at int64) (next int64, part []byte, err error) {
	ds := &d.dumps
	if at == 1 {
		if at, err = d.dump(name, kind); err != nil {
			return 0, nil, err
		}
	}
	ds.Lock()
	defer ds.Unlock()
	n, begin := at>>chunkBits, (at%(1<<chunkBits)-1)*chunkBytes
	p := ds.dumps[n]
	if p == nil || p.key != name || begin < 0 {
		return 0, nil, errPosition
	}
	p.used = time.Now()
	if begin >= p.size {
		delete(ds.dumps, n)
		return 0, nil, p.file.Close()
	}
	part = make([]byte, prefixBytes+min(chunkBytes, p.size-begin))
	for i, number := range []int64{begin, p.hashes, p.size} {
		binary.LittleEndian.PutUint64(part[8*i:], uint64(number))
	}
	_, err = p.file.ReadAt(part[prefixBytes:], begin)
	return at + 1, part, err
}

// dump begins a dump, and returns the position before its first chunk.
func (d *directory) dump(name string, kind kind) (at int64, err error) {
	k, err := d.get(name, kind, nil)
	if err != nil {
		return 0, err
	}
	defer k.mu.RUnlock()
	n, err := d.dumps.begin()
	if err != nil {
		return 0, err
	}
	p, err := newDump(k, d.madeAt(fmt.Sprint("dump", n)))
	d.dumps.Lock()
	defer d.dumps.Unlock()
	if err != nil {
		delete(d.dumps.dumps, n)
		return 0, err
	}
	d.dumps.dumps[n] = p
	return n<<chunkBits + 1, nil
}

// begin returns the number of a new dump, unless there are too many, which would fill the disk.
func (ds *dumps) begin() (n int64, err error) {
	ds.Lock()
	defer ds.Unlock()
	if len(ds.dumps) >= mostDumps {
		return 0, refusal("ERR too many dumps at once")
	}
	ds.last = (ds.last + 1) % (1 << dumpBits)
	ds.dumps[ds.last] = nil
	return ds.last, nil
}

// newDump writes a dump to a file at a path, and removes the name of the file. REQUIRES: k.mu.RLock
func newDump(k *key, path string) (*dump, error) {
	snapshot := k.filter.Snapshot
	if k.filter.Stats().KeepsHashes {
		snapshot = k.filter.SnapshotWithHashes
	}
	_, err := snapshot(context.Background(), path)
	defer os.Remove(path + ".hashes")
	defer os.Remove(path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	p := &dump{key: k.name, file: f, used: time.Now()}
	p.hashes, err = f.Seek(0, io.SeekEnd)
	if err == nil {
		p.size, err = appendFile(f, path+".hashes")
		p.size += p.hashes
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// appendFile appends the bytes of a file, if there is one, and returns how many these are.
func appendFile(to *os.File, path string) (int64, error) {
	from, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer from.Close()
	return io.Copy(to, from)
}

func loadChunk(c *client, args [][]byte) error {
	at, err := c.position(args[2], 1)
	if err != nil {
		return err
	}
	name, part := string(args[1]), args[3]
	file, err := fileName(name)
	if err != nil {
		return err
	}
	if k, err := c.d.get(name, c.kind(), nil); err == nil {
		k.mu.RUnlock()
		return errExists
	} else if err != errMissing {
		return err
	}
	c.d.dumps.load.Lock()
	defer c.d.dumps.load.Unlock()
	path := filepath.Join(c.d.path, file)
	switch kind, ok := strings.CutPrefix(string(part), dumpHeader); {
	case at > 1:
		err = c.d.loadChunk(name, path, c.kind(), part)
	case !ok:
		err = refusal("Invalid header")
	case kind != string(c.kind()):
		err = errOtherKind
	default:
		err = os.WriteFile(c.d.madeAt(path+".load"), nil, 0o644)
	}
	if err != nil {
		return err
	}
	return c.ok()
}

// errOtherKind is the error of CF.LOADCHUNK for what BF.SCANDUMP has answered, and the other way around.
const errOtherKind = refusal("ERR the dump is of a filter of the other kind")

// loadChunk writes a chunk to a file. After the last chunk it checks the files and creates the key.
func (d *directory) loadChunk(name, path string, kind kind, chunk []byte) error {
	const errChunk = refusal("Couldn't load chunk!")
	if len(chunk) <= prefixBytes {
		return errChunk
	}
	begin, hashes, size := number(chunk), number(chunk[8:]), number(chunk[16:])
	chunk = chunk[prefixBytes:]
	load := d.madeAt(path + ".load")
	f, err := os.OpenFile(load, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return errChunk // no header came before it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if begin < 0 || begin > info.Size() || int64(len(chunk)) > size-begin || hashes < 0 || hashes > size {
		return errChunk
	}
	if _, err := f.WriteAt(chunk, begin); err != nil || begin+int64(len(chunk)) < size {
		return err
	}
	if err := cutOff(f, load+".hashes", hashes); err != nil {
		return err
	}
	k := d.claim(name, path)
	defer k.mu.Unlock()
	if !k.fresh {
		return errExists
	}
	report, err := mmapfilter.Verify(context.Background(), load)
	err = errors.Join(err, report.HashesErr) // without hashes the filter cannot grow
	if err == nil {
		err = checkKind(load, kind)
	}
	if err == nil {
		err = d.install(load, k)
	}
	os.Remove(load)
	os.Remove(load + ".hashes")
	if err == nil {
		return nil
	}
	d.logf("load %s: %v", path, err)
	d.forget(k)
	if err == errOtherKind {
		return err
	}
	return errChunk
}

// checkKind checks what kind of key a file was made for.
func checkKind(path string, want kind) error {
	f, err := mmapfilter.OpenReadOnly(path, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	if settingsOf(f).kind != want {
		return errOtherKind
	}
	return nil
}

// sweepNew removes the files of loads that have not got a chunk since a time.
func (d *directory) sweepNew(since time.Time) {
	entries, err := os.ReadDir(filepath.Join(d.path, newFiles))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(since) {
			os.Remove(filepath.Join(d.path, newFiles, e.Name()))
		}
	}
	if err != nil {
		d.logf("%v", err)
	}
}

// cutOff moves the bytes of a file from an offset on to another file, if there are any.
func cutOff(f *os.File, path string, from int64) error {
	if info, err := f.Stat(); err != nil || info.Size() == from {
		return err
	}
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Seek(from, io.SeekStart)
	if err == nil {
		_, err = io.Copy(to, f)
	}
	return errors.Join(err, to.Close(), f.Truncate(from))
}

func number(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
