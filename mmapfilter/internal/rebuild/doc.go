// Package rebuild has a new file take the place of one that is open for writing, while operations go on
// (C8, K3).
//
// # The steps
//
//	tap        from an instant on, a tap lists the operations of the old file            writer
//	build      the new file gets what the old one had at that instant                    build
//	open       the new file gets a writer                                                the caller
//	catch up   what is in the tap is done in the new file, until little is left          Run
//	replace    the rest is done while operations wait, until the new one has the name    writer
//
// What the old file had comes from the hashes that it keeps: then the new file gets what its history
// means (K7), and goes on with the same history, whatever the operations do to the items of either. Or
// it comes from the caller, who is asked for it at the instant of the tap: then a history begins anew.
//
// # Pace
//
// Catching up ends only if operations are done in the new file faster than they come. If they come
// nearly as fast, each of them waits for a moment: longer, if the tap shrinks less.
//
// # The end
//
// One of the two files is left. The other one is closed without a commit: nothing in it is needed. A
// crash leaves either file too, since the new one has another name until it is complete (recovery, K3).
//
// # Growth
//
// A filter that grows by itself is rebuilt when it has too many items for its capacity, too few, or a
// long file of hashes for few items (K5). A Growth says when, and for how many keys.
package rebuild
