// Package background does what the writer of an open file leaves to others, so that no operation waits
// for it.
//
// # What goes on
//
//	commit       when the interval since the first operation that is pending is over, or at once if the
//	             open segment has become large
//	checkpoint   when the half of the log that is in use is nearly full
//	larger log   early enough that the next checkpoint finds it ready
//	reading      of a sealed file that is written to: the system drops its large pages (R4), and what was
//	             in memory is read again
//
// The engine knows what is due: it calls Behind, and Unsealing, while it holds the lock of operations.
// Behind only starts goroutines. Unsealing drops large pages, which must come before the first store: a
// few at once, and the others in steps that the engine takes between operations; only the reading is a
// goroutine. There is at most one of each kind, but for commits at the end of an interval: one may come
// beside another that takes longer than the interval, and beside one that is due at once; the locks of
// the engine order these. A checkpoint that becomes due while another one goes on is made after it, by
// the same goroutine; none begins after one that failed.
//
// # Faults
//
// A fault in a mapped file, caused by a failed disk, would end the process wherever it comes. So all
// that writes goes through Catch: what goes on here, and the operations of the caller. After a fault, or
// a panic, the writer has failed (W8). The reading catches a fault of its own, and ends; lookups are the
// caller's to protect.
//
// # The end
//
// Close and Retire first wait until nothing goes on. The mapping that lookups load from stays if
// KeepMapping says so, since they may go on: until the Work, and whatever refers to it, is garbage.
package background
