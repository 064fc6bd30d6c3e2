package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A page is memory that the processes share, through a file that each of them maps. A value
// stored there survives the process that stored it.
//
//	word 0      words with a name, 8 apart
//	word 2048   operations that have been issued, see stream.go
//	word 4096   a word for each key, see state
type page struct {
	words []uint64
	m     *osfile.Mapping // keeps the mapping alive
}

const (
	pageStreams = 2048
	pageKeys    = 4096
	pageBytes   = 8 * (pageKeys + keyCount)
)

// The parts of a page must not overlap: a negative constant does not compile.
const _ = uint(pageStreams - (wordCounters + 8*counters))

// The words with a name.
const (
	wordFile     = 8 * iota // number of the file; see reader.go
	wordSeed                // of the hash of the file, or of the next one for a builder
	wordCapacity            // likewise
	wordLayout              // likewise
	wordBits                // f, likewise; 0 in compact
	wordRate                // likewise, as the bits of a float64
	wordLimit               // keys from this one on are not inserted
	wordTarget              // how many keys the writer aims at
	wordLogBytes            // for the next writer
	wordInterval            // likewise, in nanoseconds; 0 for none
	wordStop                // how the writer must end: stopNo, stopClose or stopSeal
	wordEnd                 // readers end if it is not 0
	wordReopen              // how often readers were told to reopen the file
	wordPhase               // what the writer is doing
	wordServed              // odd while the writer has the file open

	wordReopened // 8 words, one for each reader: the last wordReopen it obeyed
	wordCounters
)

// Phases of the writer.
const (
	phaseNone = iota
	phaseOpen
	phaseWork
	phaseSync
	phaseCheckpoint
	phaseSeal
	phaseClose
	phases
)

var phaseNames = [phases]string{"no writer", "open", "work", "sync", "checkpoint", "seal", "close"}

// Ways to end that the writer is told.
const (
	stopNo = iota
	stopClose
	stopSeal
)

// Counters of the page.
const (
	countInserts = iota
	countDeletes
	countRepeated
	countLookups
	countOwnLookups
	countCounts
	countAbsent
	countMaybe
	countCommits
	countCheckpoints
	countSeals
	countMoves
	countRounds
	countLoad // in millionths, summed over rounds
	countOpens
	countKills    // by phase
	countKillsEnd = countKills + phases - 1
)

const (
	countKillsReader = countKillsEnd + 1 + iota
	countKillsRecovery
	countKillsBuild
	countSuspended
	countDead
	countByWriter
	countByReader
	countByParent
	countByChild
	countReplaced
	countLocked
	countVerified
	countChecked
	countViolations
	countOtherLookups                                    // of each reader in another language
	countOtherNos     = countOtherLookups + otherReaders // of these, those answered "certainly not"
	countOtherEnd     = countOtherNos + otherReaders
	counters          = countOtherEnd
)

// otherReaders bounds the number of readers in other languages.
const otherReaders = 2

// openPage maps the page of a directory, and creates it if necessary.
func openPage(dir string) (*page, error) {
	f, err := os.OpenFile(filepath.Join(dir, "page"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(pageBytes); err != nil {
		return nil, err
	}
	m, err := osfile.Map(f, pageBytes, true)
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
func (p *page) key(id int) uint64             { return p.get(pageKeys + id) }

// A state is what is certain about a key.
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

// The word of a key holds its state, and above it a count of its changes. So if the word is the
// same before and after a lookup, the key did not change during the lookup.
func stateOf(word uint64) state { return state(word % uint64(states)) }

// enter sets the state of a key. Only one goroutine at a time may do so, across all processes.
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

// Keys have numbers. The first copies numbers of every family stand for one key: more copies than
// its buckets have room for.
const (
	keyCount = 1 << 17
	family   = 1024
	copies   = 30
)

// appendKey appends the key with number id.
func appendKey(dst []byte, seed uint64, id int) []byte {
	if id%family < copies {
		id -= id % family
	}
	dst = binary.LittleEndian.AppendUint64(dst, seed)
	return binary.LittleEndian.AppendUint64(dst, uint64(id)*0x9E3779B97F4A7C15)
}
