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
// The engine knows what is due: it calls Behind and Unsealing while it holds the lock of operations.
// Behind only starts goroutines. Unsealing drops the large pages, which must come before the first
// store: a few at once, and the others in steps between operations; only the reading is a goroutine.
// There is at most one goroutine of each kind, except for commits: one at the end of an interval may
// start while another commit is under way, and the locks of the engine order them. A checkpoint that
// becomes due during another one is made after it, by the same goroutine. After one that failed, none
// begins before an operation asks for it, or at all if the writer has failed (W8).
//
// # Faults
//
// A fault in a mapped file would end the process. So everything that writes goes through Catch: the
// goroutines here, and the operations of the caller. After a fault, or a panic, the writer has failed
// (W8). The reading catches its own faults, and ends. Lookups are for the caller to protect.
//
// # The end
//
// Close and Retire first wait until nothing goes on. Lookups may go on: after KeepMapping, the mapping
// that they load from stays until the Work, and whatever refers to it, is garbage.
package background
