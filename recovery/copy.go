package recovery

import (
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A Copy copies the stash and the lines of a filter file as they are after one commit. It needs only
// the file and its logs, so it may be in any process. The writer does nothing for it and does not wait
// for it.
//
// The lines are copied piece by piece while the writer stores to them. Meanwhile the Copy reads the
// log from the generation that the superblock names on, and stores to the copy, in order, what durable
// segments say. This is right for the same reason as recovery (see the essay): a word of the file, and
// so of the copy, has the value of the checkpoint or a value from a durable record (W1, W3); and a
// segment is stored to the file only after the promise that it is durable. After the last piece, the
// Copy reads the newest promise, and stores the segments up to this promise to the copy. Then each
// word has its last value. Before the last piece, the Copy stores a segment only once a later segment
// is promised. Until then the file may lack words of the segment, and a piece that is copied
// afterwards would bring their old values back.
//
// A Copy fails with ErrChanging if it cannot be sure of this: if the writer gets more than a generation
// ahead, closes or replaces the file, or dies. Another Copy may succeed.
type Copy struct {
	from, to []uint64 // words of the file, mapped, and of the copy
	geometry layout.Geometry
	sb       layout.Superblock // the newest superblock when the Copy began
	epoch    uint64

	logs  LogReader
	log   []uint64      // the log that read reads
	read  *wal.Follower // nil if the file was at rest
	salts [2]uint64     // of the generation that read reads, salts[1], and of the one before
	next  uint64        // word to copy next
	wrong bool          // a record stores outside the stash and the lines
}

// A LogReader opens the logs of a file for reading.
type LogReader interface {
	// ReadLog returns the words of a log, which stay readable while the LogReader is open. If there is
	// no such file, the error is fs.ErrNotExist; if the file cannot be a log, it is layout.ErrCorrupt.
	ReadLog(LogName) ([]uint64, error)
}

// NewCopy begins to copy the words of a file (from) to the words of its copy (to).
func NewCopy(from, to []uint64, logs LogReader) (*Copy, error) {
	c := &Copy{from: from, to: to, logs: logs, next: layout.WordStash}
	sb, g, err := c.newest()
	if err != nil {
		return nil, err
	}
	if c.geometry = g; c.end() > uint64(min(len(from), len(to))) {
		return nil, ErrChanging // the mapping is of another file, or the file has been damaged since
	}
	if c.sb = *sb; sb.State() == layout.Live {
		c.read = wal.NewFollower(sb)
		c.salts[1] = sb.LogSalt()
		if c.log, err = c.findLog(sb.LogSalt()); err == nil && c.log == nil {
			err = ErrChanging
		}
	}
	if c.epoch = c.load(layout.RuntimeEpoch); err == nil && c.epoch&1 != 0 {
		err = ErrChanging // the file is being recovered or is superseded, or its writer has failed
	}
	return c, err
}

func (c *Copy) load(runtime uint64) uint64 {
	return atomic.LoadUint64(&c.from[layout.WordRuntime+runtime])
}

// newest returns a copy of the newest superblock.
func (c *Copy) newest() (sb *layout.Superblock, g layout.Geometry, err error) {
	var head [layout.OffRuntime / 8]uint64
	for i := range head {
		head[i] = atomic.LoadUint64(&c.from[i])
	}
	_, sb, g, err = layout.Newest(Bytes(head[:]))
	return sb, g, err
}

// findLog returns the log that has a header with a salt, or nil.
func (c *Copy) findLog(salt uint64) ([]uint64, error) {
	for _, name := range []LogName{CurrentLog, NextLog} {
		log, err := c.logs.ReadLog(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, layout.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if h, ok := wal.HeaderOf(log, c.sb.UUID(), salt); ok && h.Bytes == int64(len(log))*8 {
			return log, nil
		}
	}
	return nil, nil
}

// end returns the word after the last line.
func (c *Copy) end() uint64 { return layout.WordRegion + uint64(c.geometry.RegionBytes)/8 }

// Followed reports whether the file had a writer.
func (c *Copy) Followed() bool { return c.read != nil }

// Step copies some words, and reads the log. The writer must not have filled the log twice since the
// last Step. Step reports false once no words are left to copy.
func (c *Copy) Step(words uint64) (more bool, err error) {
	end := min(c.next+words, c.end())
	for ; c.next < end; c.next++ {
		c.to[c.next] = atomic.LoadUint64(&c.from[c.next])
	}
	if c.next < c.end() {
		return true, c.follow(1)
	}
	return false, nil
}

// follow stores to the copy the segments of the log up to the last promise. If before is 1,
// it leaves out the segment that ends at this promise; before is 1 or 0.
func (c *Copy) follow(before uint64) error {
	for c.read != nil {
		for c.read.Next(c.log, max(c.promised(), before)-before) {
			if err := c.read.Each(c.store); err != nil {
				return err
			}
		}
		if c.wrong {
			return &layout.CorruptError{Region: layout.RegionLog, Rule: "L3", What: "a record stores to a word outside the stash and the lines"}
		}
		if turned, err := c.turn(); err != nil || !turned {
			return err
		}
	}
	return nil
}

func (c *Copy) store(r *wal.Record) {
	r.Each(func(word, value uint64) {
		if word < layout.WordStash || word >= c.end() {
			c.wrong = true
			return
		}
		c.to[word] = value
	})
}

// turn goes on with the next generation if it has begun.
func (c *Copy) turn() (bool, error) {
	salt := wal.NextSalt(c.read.Salt())
	log := c.log
	if _, ok := wal.HeaderOf(log, c.sb.UUID(), salt); !ok {
		var err error
		if log, err = c.findLog(salt); err != nil || log == nil {
			return false, err
		}
	}
	if !c.read.Turn(log) {
		return false, nil
	}
	c.log, c.salts = log, [2]uint64{c.salts[1], salt}
	return true, nil
}

// promised returns the LSN up to which the log is known to be durable. The writer may be two generations
// ahead of c, so promised looks for promises of three generations. A promise that is read while it is
// stored does not count; so promised reads again until the result stays the same.
func (c *Copy) promised() uint64 {
	for before, again := uint64(0), false; ; again = true {
		lsn, salt := uint64(0), c.read.Salt()
		for range 3 {
			lsn = max(lsn, layout.Promise(c.from[layout.WordRuntime:layout.WordStash], salt))
			salt = wal.NextSalt(salt)
		}
		if again && lsn == before {
			return lsn
		}
		before = lsn
	}
}

// End finishes the copy. It returns a superblock, unsigned, that makes the copied stash and lines
// a sealed file. Call it once Step has reported false.
func (c *Copy) End() (sb layout.Superblock, err error) {
	promised := uint64(0)
	if c.read != nil {
		promised = c.promised()
	}
	if err := c.follow(0); err != nil {
		return sb, err
	}
	now, _, err := c.newest()
	if err != nil {
		return sb, err
	}
	sb = c.sb
	if c.read == nil {
		if *now != c.sb || c.load(layout.RuntimeEpoch) != c.epoch {
			return sb, ErrChanging
		}
	} else {
		same := now.LogSalt() == c.salts[0] || now.LogSalt() == c.salts[1] || now.LogSalt() == wal.NextSalt(c.salts[1])
		if now.State() != layout.Live || !same || c.read.LSN < promised || c.load(layout.RuntimeEpoch) != c.epoch {
			return sb, ErrChanging
		}
		sb.SetCheckpointLSN(c.read.LSN)
		sb.SetLength(c.read.Length)
		sb.SetUserSeq(c.read.UserSeq)
		sb.SetOperation(c.read.Operation)
	}
	kept := sb.Kept()
	if c.read != nil {
		kept = layout.Kept{At: c.read.At, Set: c.read.Mark}
	}
	switch {
	case !sb.IsReplica() || kept.Set == layout.Departed:
		sb.ForgetHashes()
	case kept.Set != 0: // with only some changes of a set, the file does not have the items of a position
		return sb, ErrChanging
	default:
		sb.SetKept(kept)
	}
	sb.SetState(layout.Sealed)
	sb.SetGeneration(sb.Generation() + 1)
	sb.SetLogSalt(0)
	sb.SetLogBytes(0)
	return sb, nil
}
