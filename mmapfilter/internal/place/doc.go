// Package place decides where an item goes. It is the one policy of placement, for inserts and
// for builds.
//
// A Placer works on Lines: the lines of an operation that a writer logs, or Unlogged, the lines
// of a file under construction that nobody reads yet. It loses no item. If it refuses an item,
// nothing has changed.
//
// # The rules
//
//	P1   An item goes to the first of these that takes it: its home line, with moves
//	     inside the line; its alternate line, in the same way; a line that a path of moves makes
//	     room in (P2); the stash. If none does, the item is refused. If lines know their
//	     guests (layout.Hosts), the alternate line is no step of its own: it is one of the
//	     lines where a path may lead.
//	P2   A path is searched breadth first, from both lines of the item. For each line, the
//	     search lists the items that could leave it; the first item whose other line has
//	     room ends the path. A line is tried once. If lines know their guests, the search
//	     starts in the home line alone, the item itself may be the one that leaves, and
//	     items that set the fewest overflow bits come first, so that fewer lookups of absent
//	     keys go on to a second line.
//	P3   Nothing is changed before a path is complete. Then the moves are made from its
//	     end: an item is in its new line before it leaves the old one.
//	P4   An item that is not in its home line has its overflow bits set there. Placing an
//	     item sets them in its home line, and moving an item in the line that it leaves.
//	     If lines know their guests, bits are set only in home lines, and
//	     cleared as soon as no item needs them: when the last item that has them comes
//	     home or is deleted. Otherwise nothing records which items need the bits, and the
//	     bits stay.
//	P5   A delete takes an item from its home line, else from the stash, else from its
//	     alternate line. A copy in the alternate line may be a twin, an equal item whose
//	     home is that line. If no overflow bits are set there, a lookup of the twin looks
//	     nowhere else, so the twin must be the last to go.
//	P6   An item leaves the stash for its home line, else for its alternate line, in each with
//	     moves inside the line. If both are full and a search is asked for, it leaves for a
//	     line that a path of moves makes room in (P2). The alternate line is a step of its own
//	     in every layout: the overflow bits were set when the item went to the stash, so in
//	     the other line it would cost lookups no more, while a path could set the bits of
//	     other items.
//	P7   The work on one item is bounded. A search lists the items of Bounds.SearchLines lines
//	     at most, and looks at the other line of each item. A path has Bounds.PathMoves moves,
//	     and an operation changes MaxStores words.
//	P8   If lines know their guests, the guests go home. A guest is the first to leave a
//	     full line (P2). If a delete makes room in a line and no item of the stash takes it
//	     (P6), the delete brings home one item that is away from that line; it chooses a
//	     guest whose return clears an overflow bit, if there is one. So after years of
//	     deletes and inserts, a filter has no more items away from home than when it was
//	     filled.
//	P9   A build knows how much room each line had at the end of the round before, up to
//	     layout.MostRoom. A full line takes an item in if another item, or the item itself,
//	     leaves for its other line. The first to leave are items whose other line has room,
//	     since any other item would make yet another one leave. Among these, items go first
//	     whose move costs lookups least; then items whose other line has the most room. After
//	     the first round, the item itself leaves only if no other can. If lines know their
//	     guests, and enough items have room to go to, several items are chosen together, so
//	     that they share overflow bits.
//	P10  A build moves items in rounds: an item that leaves a line arrives at its other line in
//	     the next round. Where lookups look at overflow bits, an item that finds no room in
//	     rounds 1 and 3 goes back to where it came from, and no other item leaves for it. So
//	     fewer items are away from home.
//
// # Builds
//
// A build has all items at once and places most of them line by line, in the order of the file
// (package build). It starts with P1's home lines. Then items go from line to line in rounds (P9,
// P10) instead of one search each; each item that leaves a line gets its overflow bits set (P4). So
// the few items that are left after the rounds have overflow bits, like items in the stash: Settle
// places them by P6, or in the stash.
package place
