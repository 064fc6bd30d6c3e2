// Package pending holds the changes that operations have made and no commit has stored to the
// file yet.
//
// The mapped file holds only durable state (rule W1 of package recovery). So the words of the
// region that an operation changes go to a table in memory, where this process's lookups see
// them at once, and to the file when the log is durable.
//
// There are at most two tables. One has the words of the open segment, which takes operations.
// The other has those of the previous segment, while that is being committed:
//
//	            lookups
//	               │
//	               ▼
//	 Overlay   active ─────▶ committing ─────▶ the mapped file
//	           open          being made        durable
//	           segment       durable
//
//	Over   the first operation after the file had everything
//	Next   the segment ends: active becomes committing
//	Drop   committing has been stored to the file
//
// An Overlay never changes its tables; Next and Drop return a new one. So a lookup loads one
// pointer and uses the Overlay that it got.
//
// A table has either single words or whole blocks: see Unit. A block has the newest value of each of
// its words when it is entered. Those that no operation changes are as they are in the file, which
// changes only where a word is pending.
//
// One goroutine at a time stores words. Any number of others look words up meanwhile, without a
// lock: a word is entered with its value, gets a new value in one store, and is never removed.
// When a segment is in the file, its whole table is dropped.
package pending
