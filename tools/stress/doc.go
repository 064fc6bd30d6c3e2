// Command stress has many processes use one filter file for some time, kills them
// at random moments, and looks for anything that the contract rules out.
//
//	go run ./tools/stress -for 30s
//
// One process writes, with several goroutines, at about 95 % of the slots, so that
// items are moved all the time; four read. The writer is killed while it opens the
// file, recovers it, works, syncs, checkpoints, seals or closes, or stands still for a moment
// in between; what it leaves is recovered by the next one, by readers, by this
// process or by one that is killed in its turn. Now and then a new file takes
// the place of the old. Each of these is held against what must be:
//
//   - A key that was synced, and whose delete has not begun, is found by every
//     reader and by the writer (C1).
//   - Every operation that returned is there after a death (C2), and the number of
//     operations that the file has, DurableSeq and DurableOps, is that of those that were
//     done: so none is lost and none done twice.
//   - Len is that of the model, every key of it is found, and Count is exact (C7),
//     whenever nothing is under way.
//   - A second writer is refused, a sealed file verifies, and nothing ends with an
//     error, or hangs.
//
// The processes share a page of memory (page.go), with a word for each key that
// says what is certain of it. The writer changes it before and after it changes
// the filter; a reader looks at it before and after a lookup.
//
// The exit status is 0 if nothing is wrong, 1 after a violation, 2 after another
// error. The files are kept then. A seed gives the same choices again; when
// things happen is up to the machine.
package main
