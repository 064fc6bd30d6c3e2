// Package rebuild replaces a file that is open for writing by a new file, while operations go on (C8,
// K3).
//
// # The steps
//
//	tap        from one instant on, a tap lists the operations of the old file           writer
//	build      the new file gets what the old file had at that instant                   build
//	open       the new file gets a writer                                                the caller
//	catch up   the operations in the tap are done in the new file, until few are left    Run
//	replace    operations wait; the last ones are done, and the new file gets the name   writer
//
// The items for the new file come from the kept hashes of the old file, or from the caller. With kept
// hashes, the new file gets the items that the history means (K7), and continues this history,
// whatever the operations do to the items of either file. Otherwise Run asks the caller for the keys
// at the instant of the tap, and a new history begins.
//
// # Pace
//
// Catching up ends only if operations are done in the new file faster than new ones come. If they come
// nearly as fast, each new operation waits for a moment; the more slowly the tap shrinks, the longer.
//
// # The end
//
// At the end one of the two files stays in use. If it is the new file, the old one is closed without a
// commit, since nothing in it is needed. A crash also leaves one whole file under the name, since the
// new file has another name until it is complete (recovery, K3).
//
// # Growth
//
// A filter that grows by itself is rebuilt when it has too many or too few items for its capacity, or
// when its file of hashes is too long for its items (K5). A filter that does not grow, but whose items
// expire, is rebuilt only for the last of these reasons. A Growth says when, and for how many keys.
package rebuild
