// Package sweep goes through a whole filter file: it cuts the file into pieces for several
// goroutines, counts the items in the lines of a piece, and makes the checksums of its chunks.
// Build, Seal and Verify use it.
//
// Each piece is read twice, by chunks and by lines, and is small enough that a cache still has
// it the second time.
package sweep
