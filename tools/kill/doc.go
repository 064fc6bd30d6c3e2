// Package kill has TestKill: many processes use one filter file, are killed at random moments, and the
// contract holds.
//
//	go test ./tools/kill                              # for some lives of the writer
//	go test ./tools/kill -run 'TestKill$' -for 30s -v
//
// One process writes, with several goroutines, at a load of about 95 %, so that items move all the
// time. Four processes read, two of them with a Follower. Where there is a C compiler, a reader in
// C and one in Python read too (package readers). The writer is killed while it opens the file,
// recovers it, works, syncs, checkpoints, rebuilds, seals or closes; or it is suspended for a
// moment. Then the next writer recovers the file, or a reader does, or the test, or a process that
// is killed in turn. Now and then a new file replaces the current one: it may have another layout,
// or keep hashes, so that it can be rebuilt. These rules are checked:
//
//   - A key that was synced, and whose delete has not begun, is found by every
//     reader and by the writer (C1, R6, K4).
//   - Every operation that returned survives the death of the writer (C2, K3), and
//     DurableSeq and DurableOps count exactly the operations that were done: none is
//     lost and none is done twice.
//   - Whenever nothing is in progress, Len is as in a model of the filter, every key of
//     the model is found, and Count is exact (C7).
//   - A second writer is refused, a sealed file verifies, and nothing fails or hangs.
//
// The number of a life determines how that life of the writer ends, what follows it, and what the
// next file is like; so a test of enough lives covers all cases. The instant of the kill is random.
//
// The processes share a page of memory. It has a word for each key that says what is certain about the
// key. The writer changes the word before and after it changes the filter. A reader loads it before and
// after a lookup.
//
// TestKillAtCalls, which needs the tag faults, kills a process at each of its writing calls.
package kill
