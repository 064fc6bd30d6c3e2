package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// logFile prints a log.
func (d *dump) logFile(path string) error {
	f, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d.printf("%s: %s bytes", path, formatCount(size))
	if size < 8 {
		return nil
	}
	m, err := recovery.Map(f, size/8*8, false)
	if err != nil {
		return err
	}
	defer m.Unmap()
	if fault := recovery.Guard(m.Data, func() { d.log(recovery.Words(m.Data)) }); fault != nil {
		return fault
	}
	return nil
}

// Positions of the parts of a segment, in words, and of the fields in its commit record. Package
// layout has the table.
const (
	segmentBeginLSN  = 3
	segmentCommit    = 5
	commitGeneration = 1
	commitSalt       = 2
	commitLSN        = 3
	commitRecords    = 4
	commitUserSeq    = 5
	commitOperation  = 6
	commitLength     = 7
	commitDurable    = 8
	segmentRecords   = 16
)

var (
	logMagic    = binary.LittleEndian.Uint64([]byte("MMAPFLOG"))
	commitMagic = binary.LittleEndian.Uint64([]byte("MMFCOMMT"))
)

// log prints the contents of a log.
func (d *dump) log(log []uint64) {
	for slot := range wal.HeaderSlots {
		if at := slot * wal.PageWords; at+wal.PageWords <= len(log) {
			d.logHeader(slot, log, log[at:])
		}
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
	if _, ok := wal.FindHeader(log, d.newest.UUID(), d.newest.LogSalt()); !ok {
		d.printf("  none of it counts: no header has the salt of the newest superblock")
		return
	}
	scan, err := wal.Scan(log, d.newest, d.promised, nil)
	if d.records {
		d.segments(log, scan.End)
	}
	why := "nothing of this generation follows"
	if scan.Torn {
		why = "an operation or a segment is incomplete there"
	}
	if err != nil {
		why = err.Error()
	}
	d.printf("  ends at offset %d, after LSN %d and %s: %s", scan.End*8, scan.LSN, formatNumber(scan.Records, "record", "records"), why)
	d.printf("  makes length %d, sequence %d and %d operations", scan.Length, scan.UserSeq, scan.Operation)
}

func (d *dump) logHeader(slot int, log, w []uint64) {
	if w[0] != logMagic {
		d.printf("  header %d: none", slot)
		return
	}
	var uuid [16]byte
	binary.LittleEndian.PutUint64(uuid[:8], w[2])
	binary.LittleEndian.PutUint64(uuid[8:], w[3])
	verdict := "intact"
	if _, ok := wal.FindHeader(log, uuid, w[5]); !ok {
		verdict = "damaged, or from a log of another size"
	}
	d.printf("  header %d: %s, uuid %s, generation %d, salt %#x, %d bytes", slot, verdict, hex.EncodeToString(uuid[:]), w[4], w[5], w[6])
}

// segments prints the segments of a log that begin before end. The LSN of a record follows from
// that of its segment.
func (d *dump) segments(log []uint64, end uint64) {
	for at := uint64(wal.FirstWord); at < end && at+segmentRecords <= uint64(len(log)) && d.err == nil; {
		first := log[at+segmentBeginLSN]
		c := log[at+segmentCommit:]
		records := ^uint64(0)
		if c[0] == commitMagic && c[commitGeneration] == d.newest.Generation() && c[commitSalt] == d.newest.LogSalt() {
			records = c[commitRecords]
			d.printf("  segment at offset %d: committed with LSN %d, %d records, sequence %d and %d operations, length %d, durable up to %d when it was",
				at*8, c[commitLSN], c[commitRecords], c[commitUserSeq], c[commitOperation], c[commitLength], c[commitDurable])
		} else {
			d.printf("  segment at offset %d: not committed", at*8)
		}
		at += segmentRecords
		// This commit record is unchecked: it may lead into the middle of a record.
		for i := uint64(0); i < records && at < end && wal.NextRecord(log, at) <= end; i++ {
			var r wal.Record
			r, at = wal.ReadRecord(log, at)
			d.record(first+i, &r)
		}
		at = (at + wal.PageWords - 1) / wal.PageWords * wal.PageWords
	}
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
	d.printf("    LSN %d  %s%s", lsn, stores[2:], flags)
}
