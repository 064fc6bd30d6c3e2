// Command stress runs many processes on one filter file, kills them at random moments, and checks
// that the contract holds.
//
//	go run ./tools/stress -for 30s
//
// One process writes, with several goroutines, at a load of about 95 %, so that items move all the
// time. Four processes read, and where there is a C compiler, so do one in C and one in Python (package
// readers). The file has any layout. The writer is killed while it opens the
// file, recovers it, works, syncs, checkpoints, seals or closes; or it is suspended for a moment.
// Then the next writer recovers the file, or a reader does, or this process, or a process that is
// killed in turn. Now and then a new file replaces the old one. These rules are checked:
//
//   - A key that was synced, and whose delete has not begun, is found by every
//     reader and by the writer (C1).
//   - Every operation that returned survives the death of the writer (C2), and
//     DurableSeq and DurableOps count exactly the operations that were done: none is
//     lost and none is done twice.
//   - Whenever nothing is in progress, Len equals that of the model, every key of the
//     model is found, and Count is exact (C7).
//   - A second writer is refused, a sealed file verifies, and nothing fails or hangs.
//
// The processes share a page of memory (page.go). It has a word for each key that says what is
// certain about the key. The writer changes the word before and after it changes the filter. A
// reader loads it before and after a lookup.
//
// The exit status is 0 if all is well, 1 after a violation, and 2 after any other error; the files
// are kept in the last two cases. The same seed makes the same choices, but not at the same times.
package main
