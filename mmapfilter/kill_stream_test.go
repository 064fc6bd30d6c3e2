//go:build unix

package mmapfilter

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A stream is an endless sequence of operations that every process computes by itself. Each
// block inserts 64 keys, some of them more than once; from block delay on, each block also
// deletes the keys of the block delay blocks earlier. So at most some 64·(delay+1) keys are in
// the filter at once, and only present keys are deleted.
type stream struct {
	seed  uint64
	delay int // in blocks
}

const blockKeys = 64

type streamOp struct {
	key    uint64
	delete bool
}

// keys returns the keys that block b inserts. Every fourth block inserts one of them more often
// than its buckets have room for.
func (s stream) keys(b int) (keys [blockKeys]uint64) {
	rng := rand.New(rand.NewPCG(s.seed, uint64(b)<<1))
	for i := range keys {
		keys[i] = rng.Uint64()
		if i > 0 && (i%8 == 7 || b%4 == 3 && i >= blockKeys/2) {
			keys[i] = keys[i-1]
		}
	}
	return keys
}

// block returns the operations of block b. Some blocks insert first, some delete first, so that
// the load goes up and down.
func (s stream) block(b int) []streamOp {
	var inserts, deletes []streamOp
	for _, key := range s.keys(b) {
		inserts = append(inserts, streamOp{key: key})
	}
	rng := rand.New(rand.NewPCG(s.seed, uint64(b)<<1|1))
	if b >= s.delay {
		keys := s.keys(b - s.delay)
		for _, i := range rng.Perm(blockKeys) {
			deletes = append(deletes, streamOp{key: keys[i], delete: true})
		}
	}
	var ops []streamOp
	for len(inserts)+len(deletes) > 0 {
		first := [...]int{len(inserts), len(deletes), 0}[b/4%3] // biased towards the first kind
		if rng.IntN(2*(len(inserts)+len(deletes))) < len(inserts)+first && len(inserts) > 0 || len(deletes) == 0 {
			ops, inserts = append(ops, inserts[0]), inserts[1:]
		} else {
			ops, deletes = append(ops, deletes[0]), deletes[1:]
		}
	}
	return ops
}

// find returns the block of operation n, counted from 0, and its number in the block.
func (s stream) find(n int) (b, i int) {
	if n < blockKeys*s.delay {
		return n / blockKeys, n % blockKeys
	}
	n -= blockKeys * s.delay
	return s.delay + n/(2*blockKeys), n % (2 * blockKeys)
}

// each calls f with the operations from, from+1 and so on, until f returns false.
func (s stream) each(from int, f func(n int, op streamOp) bool) {
	b, i := s.find(from)
	for n := from; ; b, i = b+1, 0 {
		for _, op := range s.block(b)[i:] {
			if !f(n, op) {
				return
			}
			n++
		}
	}
}

// state returns the keys in the filter after n operations, with their numbers of copies, and the
// total of these.
func (s stream) state(n int) (keys map[uint64]int, length int) {
	keys = make(map[uint64]int)
	b, i := s.find(n)
	for c := max(b-s.delay, 0); c < b; c++ {
		for _, key := range s.keys(c) {
			keys[key]++
			length++
		}
	}
	for _, op := range s.block(b)[:i] {
		if op.delete {
			keys[op.key]--
			length--
		} else {
			keys[op.key]++
			length++
		}
	}
	return keys, length
}

// deletes counts the deletes of a key among the operations from to to-1.
func (s stream) deletes(key uint64, from, to int) (n int) {
	if from < to {
		s.each(from, func(i int, op streamOp) bool {
			if op.delete && op.key == key {
				n++
			}
			return i+1 < to
		})
	}
	return n
}

func keyBytes(key uint64) []byte { return binary.LittleEndian.AppendUint64(nil, key) }

// A killPage is what the processes of a kill test tell each other, through a file that each
// maps: a stored word survives the process that stored it.
type killPage struct{ words []uint64 }

// The words of a page. An operation is issued, then it returns, then a Sync acknowledges it; the
// numbers are of operations, counted from the very first.
const (
	pageIssued   = 8 * iota // by a call that has begun
	pageReturned            // by a call that has returned
	pageAcked               // by a Sync or a recovery
	pageStop                // not 0: readers end
	pageRounds              // of the readers, one word each from here on
	pageNegatives
	pageWords = 512
)

func openPage(path string) (*killPage, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(8 * pageWords); err != nil {
		return nil, err
	}
	m, err := osfile.Map(f, 8*pageWords, true)
	if err != nil {
		return nil, err
	}
	return &killPage{recovery.Words(m.Data)}, nil
}

func (p *killPage) get(word int) int    { return int(atomic.LoadUint64(&p.words[word])) }
func (p *killPage) set(word, value int) { atomic.StoreUint64(&p.words[word], uint64(value)) }
func (p *killPage) add(word, value int) { atomic.AddUint64(&p.words[word], uint64(value)) }

// A killTest is the state that the processes of a kill test share.
type killTest struct {
	role string // of this process; empty for the test itself
	arg  string // the part of the role after a colon
	path string // of the filter
	page *killPage
	stream
	cycle uint64 // seeds what the writer does besides the stream

	stashLen int // most stash entries seen in use
}

const variableKill = "MMAPFILTER_TEST_KILL"

// environment tells a child process its role.
func (k *killTest) environment(role string) []string {
	return append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d|%d|%d", variableKill, role, k.path, k.seed, k.delay, k.cycle))
}

// killRole returns the role of a child process, or nil in any other process.
func killRole() (*killTest, error) {
	fields := strings.Split(os.Getenv(variableKill), "|")
	if len(fields) != 5 {
		return nil, nil
	}
	var n [3]uint64
	for i := range n {
		n[i], _ = strconv.ParseUint(fields[2+i], 10, 64)
	}
	page, err := openPage(fields[1] + "-page")
	return &killTest{role: fields[0], path: fields[1], page: page, stream: stream{n[0], int(n[1])}, cycle: n[2]}, err
}

// check compares a newly opened filter with the stream and returns how many operations it has:
// all that returned, and none that was not issued (C1, C2).
func (k *killTest) check(f *Filter) (n int, err error) {
	issued, returned := k.page.get(pageIssued), k.page.get(pageReturned)
	n = int(f.DurableSeq() + f.DurableOps())
	if n < returned || n > issued {
		return n, fmt.Errorf("%d.%d: the file has %d operations; %d were issued, and %d returned; %d are acknowledged",
			f.DurableSeq(), f.DurableOps(), n, issued, returned, k.page.get(pageAcked))
	}
	keys, length := k.state(n)
	if f.Len() != uint64(length) {
		return n, fmt.Errorf("%d items after %d operations, not %d", f.Len(), n, length)
	}
	for key, copies := range keys {
		if copies > 0 && !f.Contains(keyBytes(key)) {
			return n, fmt.Errorf("key %x is missing after %d operations, %d copies", key, n, copies)
		}
		if got := f.Count(keyBytes(key)); got < uint64(copies) {
			return n, fmt.Errorf("%d copies of key %x after %d operations, not %d", got, key, n, copies)
		}
	}
	// What a recovery finds is durable.
	k.page.set(pageReturned, n)
	k.page.set(pageAcked, n)
	return n, nil
}
