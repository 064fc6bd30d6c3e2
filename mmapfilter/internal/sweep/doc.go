// Package sweep goes through all of a filter file: it cuts the file into pieces that
// several goroutines work on, counts the items in the lines of a piece, and makes the
// checksums of its chunks. Build, Seal and Verify are made of it.
//
// A piece is read twice, by chunks and by lines, and is so small that a cache still has
// it the second time.
package sweep
