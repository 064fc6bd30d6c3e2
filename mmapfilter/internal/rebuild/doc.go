// Package rebuild replaces a file that is open for writing by a new one, while operations go on (C8,
// K3).
//
// # The steps
//
//	tap        from an instant on, a tap lists the operations of the old file            writer
//	build      the new file gets what the old one had at that instant                    build
//	open       the new file gets a writer                                                the caller
//	catch up   what is in the tap is done in the new file, until little is left          Run
//	replace    the rest is done while operations wait, until the new one has the name    writer
//
// The items for the new file come from the kept hashes of the old file, or from the caller. With
// kept hashes, the new file gets the items that the history means (K7), and continues this history,
// whatever the operations do to the items of either file. Otherwise the caller is asked for keys at
// the instant of the tap, and a new history begins.
//
// # Pace
//
// Catching up ends only if operations are done in the new file faster than they come. If they come
// nearly as fast, each operation waits for a moment, and longer if the tap shrinks less.
//
// # The end
//
// In the end one of the two files stays in use. The old file is closed without a commit: nothing in
// it is needed. A crash also leaves one whole file under the name, since the new one has another
// name until it is complete (recovery, K3).
//
// # Growth
//
// A filter that grows by itself is rebuilt when it has too many items for its capacity, too few, or a
// long file of hashes for few items (K5). A filter that does not grow, but whose items leave by
// themselves, is rebuilt for the last of these reasons alone. A Growth says when, and for how many keys.
package rebuild
