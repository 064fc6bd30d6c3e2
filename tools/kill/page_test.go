//go:build unix

package kill

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A page is memory that the processes share, through a file that each of them maps. A value stored
// there survives the process that stored it.
//
//	word 0      named words, 8 apart
//	word 2048   operations that have been issued; see stream
//	word 4096   a word for each key; see state
type page struct {
	words []uint64
	m     *osfile.Mapping // keeps the mapping alive
}

const (
	pageStreams = 2048
	pageKeys    = 4096
	pageWords   = pageKeys + keyCount
)

// The named words. Those up to wordKeep describe the file or, for a builder, the next file.
const (
	wordSeed     = 8 * iota // of the hash
	wordCapacity            //
	wordLayout              //
	wordBits                // f; 0 in compact
	wordRate                // false-positive rate, as the bits of a float64; in force if wordBits is 0
	wordKeep                // 1 if the file keeps its hashes
	wordFile                // number of the file; see read
	wordLimit               // keys from this one on are not inserted
	wordTarget              // how many keys the writer aims at
	wordLogBytes            // for the next writer
	wordInterval            // also for the next writer, in nanoseconds; 0 for none
	wordStop                // how the writer must end: phaseSeal, phaseClose, or 0
	wordWant                // the phase that the writer must enter in each round, or 0
	wordEnd                 // if not 0, readers must end
	wordReopen              // how many times readers were told to reopen the file
	wordPhase               // what the writer is doing
	wordServed              // odd while the writer has the file open

	wordReopened // 8 words, one for each reader: the last wordReopen that it obeyed
	wordCounters
)

// Phases of the writer.
const (
	phaseNone = iota
	phaseOpen
	phaseWork
	phaseSync
	phaseCheckpoint
	phaseRebuild
	phaseSeal
	phaseClose
	phases
)

var phaseNames = [phases]string{"no writer", "open", "work", "sync", "checkpoint", "rebuild", "seal", "close"}

// Counters of the page.
const (
	countInserts = iota
	countDeletes
	countRepeated
	countRebuilds
	countOwnLookups
	countViolations
	countLookups                            // of each reader
	countNos     = countLookups + 2*readers // of each reader: lookups answered "certainly not"
	counters     = countNos + 2*readers
)

// readers is the number of readers in Go. There are at most as many readers in other languages.
const readers = 4

// The parts of a page must not overlap. If they did, a constant here would be negative and not compile.
const (
	_ = uint(pageStreams - (wordCounters + 8*counters))
	_ = uint(pageKeys - (pageStreams + streams*streamWords))
)

// openPage maps the page of a directory, and creates it if necessary.
func openPage(dir string) (*page, error) {
	f, err := os.OpenFile(filepath.Join(dir, "page"), os.O_RDWR|os.O_CREATE, 0o600)
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
	return &page{recovery.Words(m.Data), m}, nil
}

func (p *page) get(word int) uint64           { return atomic.LoadUint64(&p.words[word]) }
func (p *page) set(word int, value uint64)    { atomic.StoreUint64(&p.words[word], value) }
func (p *page) add(word int, n uint64) uint64 { return atomic.AddUint64(&p.words[word], n) }
func (p *page) count(counter int, n uint64)   { p.add(wordCounters+8*counter, n) }
func (p *page) counted(counter int) uint64    { return p.get(wordCounters + 8*counter) }
func (p *page) violated() bool                { return p.counted(countViolations) > 0 }
func (p *page) keeps() bool                   { return p.get(wordKeep) != 0 }
func (p *page) key(id int) uint64             { return p.get(pageKeys + id) }

// A state says what is known about a key.
type state uint64

const (
	absent    state = iota // its delete was synced, or it was never inserted
	inserting              // its insert has begun, and is not synced
	synced                 // its insert was synced
	deleting               // its delete has begun, and is not synced
	states
)

func (s state) String() string {
	return [...]string{"absent", "inserting", "synced", "deleting"}[s%states]
}

// in reports whether the key is in the filter, if no operation on it is in progress.
func (s state) in() bool { return s == inserting || s == synced }

// The word of a key holds its state, and above it a count of its changes. So if the word is the same
// before and after a lookup, the key did not change during the lookup.
func stateOf(word uint64) state { return state(word % uint64(states)) }

// enter sets the state of a key. Only one goroutine of all processes may do so at a time.
func (p *page) enter(id int, s state) {
	w := p.key(id)
	p.set(pageKeys+id, w-w%uint64(states)+uint64(states)+uint64(s))
}

// settle marks the last operation on a key as synced.
func (p *page) settle(id int) {
	switch stateOf(p.key(id)) {
	case inserting:
		p.enter(id, synced)
	case deleting:
		p.enter(id, absent)
	}
}

// Keys have numbers; family numbers in a row are a family. The first 30 numbers of a family stand for
// the same key, which is then inserted more times than its buckets have room for.
const (
	keyCount = 1 << 17
	family   = 1024
	copies   = 30
)

// same returns the first of the numbers that stand for the same key.
func same(id int) int {
	if id%family < copies {
		id -= id % family
	}
	return id
}

// appendKey appends the key with number id.
func appendKey(dst []byte, seed uint64, id int) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, seed)
	return binary.LittleEndian.AppendUint64(dst, uint64(same(id))*0x9E3779B97F4A7C15)
}

// Operations are made in streams, one for each goroutine of the writer. A key belongs to the stream of
// its class, so operations in progress in two streams never affect the same Count. A key stays in its
// stream in every life of the writer: a writer repeats operations of the last one in the same stream.
//
// The page has the last operations of each stream, by number. An operation is entered in the page,
// issued, made and returned, in this order. If more were issued than returned, the page says which are
// uncertain.
const (
	streams     = 4
	streamRing  = 16
	streamWords = 8 + streamRing
)

const (
	streamIssued = iota
	streamReturned
	streamOps = 8
)

// An op is an operation on a key.
type op struct {
	id     int
	delete bool
}

func (o op) String() string {
	if o.delete {
		return fmt.Sprintf("delete of key %d", o.id)
	}
	return fmt.Sprintf("insert of key %d", o.id)
}

// A stream is the part of the page that belongs to one stream.
type stream struct {
	*page
	at int // its first word
}

func (p *page) stream(n int) stream { return stream{p, pageStreams + n*streamWords} }

func (s stream) issued() uint64   { return s.get(s.at + streamIssued) }
func (s stream) returned() uint64 { return s.get(s.at + streamReturned) }

// op returns operation n, which must be one of the last streamRing.
func (s stream) op(n uint64) op {
	w := s.get(s.at + streamOps + int(n%streamRing))
	return op{int(w / 2), w%2 == 1}
}

// issue enters operations, and then counts them as issued.
func (s stream) issue(ops ...op) {
	n := s.issued()
	for i, o := range ops {
		w := uint64(o.id) * 2
		if o.delete {
			w++
		}
		s.set(s.at+streamOps+int((n+uint64(i))%streamRing), w)
	}
	s.set(s.at+streamIssued, n+uint64(len(ops)))
}

// done counts n more operations as returned.
func (s stream) done(n int) { s.set(s.at+streamReturned, s.returned()+uint64(n)) }

// drop forgets the operations that were issued and have not returned.
func (s stream) drop() { s.set(s.at+streamIssued, s.returned()) }

// returnedOps returns how many operations of all streams have returned.
func (p *page) returnedOps() (n uint64) {
	for i := range streams {
		n += p.stream(i).returned()
	}
	return n
}

// issuedOps returns how many operations of all streams were issued.
func (p *page) issuedOps() (n uint64) {
	for i := range streams {
		n += p.stream(i).issued()
	}
	return n
}
