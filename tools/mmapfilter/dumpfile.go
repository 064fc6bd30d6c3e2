package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A dump prints the parts of a filter file. It trusts none of them.
type dump struct {
	records  bool // print the records of the log
	showSeed bool
	lines    bool
	from, to uint64 // lines to print

	w   io.Writer
	err error // of writes to w

	head     []byte             // the superblock copies, as far as the file has them
	newest   *layout.Superblock // nil if none is usable
	geometry layout.Geometry
	promised uint64 // the LSN up to which the log is durable, according to the runtime page
}

func (d *dump) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format+"\n", args...)
	}
}

// openRegular opens a regular file. Opening a pipe would wait for its writer.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	return f, info.Size(), err
}

// file prints the parts of a filter file.
func (d *dump) file(f io.ReaderAt, size int64) error {
	var err error
	if d.head, err = d.part(f, 0, layout.OffRuntime); err != nil {
		return err
	}
	d.superblocks(size)
	words, err := d.words(f, layout.OffRuntime, layout.RuntimeBytes)
	if err != nil {
		return err
	}
	if len(words) == layout.RuntimeWords {
		d.runtime(words)
	}
	if words, err = d.words(f, layout.OffStash, layout.StashBytes); err != nil {
		return err
	}
	d.stash(words)
	if d.lines {
		return d.region(f)
	}
	return nil
}

// part reads up to n bytes, fewer if the file ends first.
func (d *dump) part(f io.ReaderAt, off, n int64) ([]byte, error) {
	b := make([]byte, n)
	got, err := f.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:got], err
}

func (d *dump) words(f io.ReaderAt, off, n int64) ([]uint64, error) {
	b, err := d.part(f, off, n)
	words := make([]uint64, len(b)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return words, err
}

// superblocks prints the superblock copies, and keeps the newest one for the other parts.
func (d *dump) superblocks(size int64) {
	slots := make(map[layout.Superblock]int) // the first copy with this content
	for i := range layout.SuperblockSlots {
		off := i * layout.SuperblockBytes
		if len(d.head) < off+layout.SuperblockBytes {
			d.printf("superblock %d: the file ends before its end", i)
			continue
		}
		sb := (*layout.Superblock)(d.head[off:])
		if first, ok := slots[*sb]; ok {
			d.printf("superblock %d: equal to superblock %d", i, first)
			continue
		}
		slots[*sb] = i
		d.superblock(i, sb)
	}
	slot, sb, g, err := layout.Newest(d.head)
	if err != nil {
		d.printf("newest: none is usable: %v", err)
		return
	}
	d.newest, d.geometry = sb, g
	d.printf("newest: superblock %d", slot)
	if err := sb.CheckFileSize(g, size); err != nil {
		d.printf("  %v", err)
	}
}

func (d *dump) superblock(i int, sb *layout.Superblock) {
	if *sb == (layout.Superblock{}) {
		d.printf("superblock %d: zero", i)
		return
	}
	// If the other copies are empty, Newest returns the error of this one.
	alone := make([]byte, layout.OffRuntime)
	copy(alone[i*layout.SuperblockBytes:], sb[:])
	verdict := "intact"
	if _, _, _, err := layout.Newest(alone); err != nil {
		verdict = err.Error()
		if damage := new(layout.CorruptError); errors.As(err, &damage) {
			verdict = "not intact: " + damage.Rule + ": " + damage.What
		}
	}
	uuid := sb.UUID()
	d.printf("superblock %d: %s", i, verdict)
	d.printf("  version %d, generation %d, %s, uuid %s", sb.Version(), sb.Generation(), sb.State(), hex.EncodeToString(uuid[:]))
	d.printf("  flags: compat %#x, read-only-compat %#x, incompat %#x", sb.Compat(), sb.ReadOnlyCompat(), sb.Incompat())
	d.printf("  layout %s, %v, %d lines, capacity %d, rate %v, design load %v", sb.Kind(), sb.Params(), sb.Lines(), sb.Capacity(), sb.TargetRate(), sb.DesignLoad())
	seed := ""
	if d.showSeed {
		seed = ", seed " + formatSeed(sb.Seed())
	}
	d.printf("  hash %d%s, read as %q", sb.HashID(), seed, sb.Normalisation())
	if s := sb.Shard(); s.Count > 0 {
		d.printf("  shard %d of %d, identity %016x", s.Number, s.Count, sb.ShardIdentity())
	}
	d.printf("  length %d, sequence %d and %d operations", sb.Length(), sb.UserSeq(), sb.Operation())
	if k := sb.Kept(); sb.KeepsHashes() {
		d.printf("  history with identity %016x: %d operations, chain %016x; %d left out, %d waiting", sb.Descent(), k.At.Number, k.At.Chain, k.LeftOut, k.Waiting)
		if sb.Follows() {
			d.printf("  follows the history with identity %016x: %d operations, chain %016x; set %016x", sb.Source(), k.Followed.Number, k.Followed.Chain, k.Set)
		}
	}
	d.printf("  log of %d bytes, salt %#x, checkpoint LSN %d", sb.LogBytes(), sb.LogSalt(), sb.CheckpointLSN())
}

func (d *dump) runtime(words []uint64) {
	d.printf("runtime page: epoch %d, removal counter of the stash %d", words[layout.RuntimeEpoch], words[layout.RuntimeStashCounter])
	all, odd := 0, 0
	layout.Counters(func(word uint64) {
		all++
		odd += int(words[word] & 1)
	})
	d.printf("  %d of %d removal counters are odd", odd, all)
	if d.newest == nil {
		return
	}
	salt := d.newest.LogSalt()
	if d.promised = max(layout.Promise(words, salt), layout.Promise(words, wal.NextSalt(salt))); d.promised > 0 {
		d.printf("  promise: the log is durable up to LSN %d", d.promised)
	} else {
		d.printf("  promise: none for the log of the newest superblock")
	}
}

func (d *dump) stash(words []uint64) {
	d.printf("stash: %s", formatNumber(layout.StashLen(words[:len(words)/2*2]), "entry", "entries"))
	layout.StashClasses(words[:len(words)/2*2], func(c layout.Class, items uint64) {
		d.printf("  line %d, bucket %d, fingerprint %#x: %s", c.Line, c.Bucket, c.Fp, formatNumber(items, "item", "items"))
	})
}

// region prints lines. Without a usable superblock, it assumes lines of 64 bytes.
func (d *dump) region(f io.ReaderAt) error {
	d.printf("lines %d to %d:", d.from, d.to)
	for line := d.from; line <= d.to && d.err == nil; line++ {
		off, size := int64(layout.OffRegion)+int64(line)*layout.LineBytes, int64(layout.LineBytes)
		where := ""
		if d.newest != nil {
			if line >= d.geometry.Lines {
				d.printf("  there are only %d lines", d.geometry.Lines)
				break
			}
			first, n := layout.NewTable(d.geometry).Words(line)
			off, size = layout.OffRegion+8*int64(first), 8*int64(n)
			if bits := uint64(layout.LineBits(d.geometry.Kind, d.geometry.Params)); bits < 8*layout.LineBytes {
				where = fmt.Sprintf(", %d bits from bit %d", bits, line*bits%64)
			}
		}
		words, err := d.words(f, off, size)
		if err != nil {
			return err
		}
		if len(words) == 0 {
			d.printf("  the file ends before offset %d", off)
			break
		}
		d.printf("  line %d, offset %d%s", line, off, where)
		for i, w := range words {
			d.printf("    %d  %016x", i, w)
		}
	}
	return nil
}
