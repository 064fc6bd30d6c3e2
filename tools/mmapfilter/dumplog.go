package main

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// logFiles prints the logs of a filter. While a checkpoint is under way, both may be in use.
func (d *dump) logFiles(path string) error {
	names := [2]string{path + recovery.CurrentLog.String(), path + recovery.NextLog.String()}
	var words [2][]uint64
	sizes := [2]int64{-1, -1}
	for i, name := range names {
		f, size, err := openRegular(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			sizes[i] = size
			words[i], err = d.words(f, 0, size)
			f.Close()
		}
		if err != nil {
			return err
		}
	}
	for i, name := range names {
		if sizes[i] >= 0 {
			d.printf("%s: %s bytes", printable(name), formatCount(sizes[i]))
		}
		if len(words[i]) > 0 {
			d.log(words[i], words[1-i])
		}
	}
	return nil
}

// log prints the contents of a log. other is the log with the other name, or nil.
func (d *dump) log(log, other []uint64) {
	headers := wal.Headers(log)
	for _, h := range headers {
		d.printf("  header: uuid %s, generation %d, salt %#x, %d bytes", hex.EncodeToString(h.UUID[:]), h.Generation, h.Salt, h.Bytes)
	}
	if headers == nil {
		d.printf("  no header is intact")
	}
	if d.newest == nil {
		d.printf("  no usable superblock says which generation counts")
		return
	}
	if wal.LaterGeneration(log, d.newest) {
		d.printf("  it has records of a later generation: the newest superblock is lost")
		return
	}
	if d.newest.State() != layout.Live {
		d.printf("  none of it counts: the newest superblock is %s", d.newest.State())
		return
	}
	has := func(log []uint64, salt uint64) bool {
		_, ok := wal.FindHeader(log, d.newest.UUID(), salt)
		return ok
	}
	next := wal.NextSalt(d.newest.LogSalt())
	switch {
	case has(log, d.newest.LogSalt()):
	case has(log, next):
		d.printf("  goes on where the other log ends")
		return
	default:
		d.printf("  none of it counts: no header has the salt of the newest superblock")
		return
	}
	logs := [2][]uint64{log, log}
	if has(other, next) {
		logs[1] = other
	}
	scan, err := wal.Scan(logs[0], logs[1], d.newest, d.promised, nil)
	if d.records {
		lsn := d.newest.CheckpointLSN()
		for _, seg := range scan.Segments {
			lsn = d.segment(logs[seg.Log], seg, lsn)
		}
	}
	why := "nothing of this generation follows"
	if scan.Torn {
		why = "an operation or a segment is incomplete there"
	}
	if err != nil {
		why = err.Error()
	}
	where := ""
	if scan.End[1] != 0 && has(other, next) {
		where = " of the other log"
	}
	d.printf("  ends at offset %d%s, after LSN %d and %s: %s", cmp.Or(scan.End[1], scan.End[0])*8, where, scan.LSN, formatNumber(scan.Records, "record", "records"), why)
	d.printf("  makes length %d, sequence %d and %d operations", scan.Length, scan.UserSeq, scan.Operation)
}

// segment prints a segment of a log. lsn is the LSN of the record before it; last is the LSN of its last
// record, or of its commit record.
func (d *dump) segment(log []uint64, seg wal.Segment, lsn uint64) (last uint64) {
	offset, c := seg.Start/wal.PageWords*wal.PageBytes, seg.Commit
	if c == (wal.Commit{}) {
		d.printf("  segment at offset %d: not committed", offset)
	} else {
		d.printf("  segment at offset %d: committed with LSN %d, %s, sequence %d and %d operations, length %d, durable up to %d before",
			offset, c.LSN, formatNumber(c.Records, "record", "records"), c.UserSeq, c.Operation, c.Length, c.Durable)
	}
	seg.Each(log, func(r wal.Record) {
		lsn++
		d.record(lsn, &r)
	})
	return max(lsn, c.LSN)
}

func (d *dump) record(lsn uint64, r *wal.Record) {
	stores, flags := "", ""
	r.Each(func(word, value uint64) { stores += fmt.Sprintf(", word %d = %016x", word, value) })
	if r.Guarded {
		flags += ", guarded"
	}
	if r.Last {
		flags += ", last of operation " + formatCount(uint64(r.Operation))
	}
	if r.Grow != 0 {
		flags += ", length " + map[int]string{1: "+1", -1: "-1"}[r.Grow]
	}
	if r.Op != 0 {
		flags += ", " + [...]string{layout.Insert: "insert", layout.Delete: "delete", layout.AtLeastOne: "at least one"}[r.Op] + fmt.Sprintf(" %016x", r.Hash)
	}
	if r.Mark {
		flags += fmt.Sprintf(", mark: operation %d and chain %016x of the history that the replica follows, set %016x", r.Values[0], r.Values[1], r.Values[2])
	}
	d.printf("    LSN %d  %s", lsn, strings.TrimPrefix(stores+flags, ", "))
}
