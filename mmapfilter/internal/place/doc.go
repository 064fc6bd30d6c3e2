// Package place decides where an item goes, both in inserts and in builds.
//
// A Placer works on Lines: the lines that an operation of a writer changes, or Unlogged, the
// lines of a file under construction that nobody reads yet. A Placer loses no item. If it
// refuses an item, nothing has changed.
//
// # The rules
//
//	P1   An item goes to the first of these places that takes it: its home line, with moves
//	     inside the line; its alternate line, likewise; a line in which a path of moves makes
//	     room (P2); the stash. If none takes it, the item is refused. If lines know their guests
//	     (layout.Hosts), the alternate line is not a step of its own, but one of the lines to
//	     which a path may lead.
//	P2   The search for a path is breadth first, and starts from both lines of the item. For each
//	     line, the search lists the items that could leave it; the first of them whose other line
//	     has room ends the path. The search visits a line only once. If lines know their guests,
//	     the search starts from the home line alone, the new item may itself leave for its other
//	     line, and items whose move sets the fewest overflow bits come first, so that fewer
//	     lookups of absent keys go on to a second line.
//	P3   Nothing changes before a path is complete. Then the moves begin at the end of the path,
//	     and an item is in its new line before it leaves the old one.
//	P4   If an item is not in its home line, its overflow bits are set in its home line. Placing
//	     an item elsewhere sets its bits in its home line, and moving an item sets them in the
//	     line that it leaves. If lines know their guests, bits are set only in home lines, and
//	     cleared as soon as no item needs them: when the last item that has them comes home or is
//	     deleted. Otherwise nothing records which items need the bits, and the bits stay set.
//	P5   A delete removes an item from its home line, else from the stash, else from its
//	     alternate line. A copy in the alternate line may be a twin, an item with the same
//	     fingerprint whose home is that line. If no overflow bits are set in that line, a lookup
//	     of the twin looks nowhere else, so that copy must be the last to go.
//	P6   An item leaves the stash for its home line, else for its alternate line, with moves
//	     inside the line: it can once a delete makes room in one of the two. Here the alternate
//	     line is a separate step in every layout. The item's overflow bits were set when it went
//	     to the stash, so it costs lookups no more in the alternate line than in the stash.
//	P7   The work on one item is bounded. A search lists the items of at most Bounds.SearchLines
//	     lines, and looks at the other line of each item. A path has at most Bounds.PathMoves
//	     moves, and an operation changes at most MaxStores words.
//	P8   If lines know their guests, guests go home when they can. From a full line, guests leave
//	     first (P2). If a delete makes room in a line and no item of the stash takes this room
//	     (P6), the delete brings home one item whose home is that line, if possible a guest whose
//	     return clears an overflow bit. So after years of deletes and inserts, a filter has no
//	     more items away from home than when it was filled.
//	P9   A build has all items of a range of lines before it fills the lines. A line takes its own
//	     items, as many as it has slots. If lines know their guests, its other items become
//	     guests of lines of the range that have room beside their own items, or whose items
//	     make room by leaving in turn. Lines with the most items choose first. A line
//	     chooses one direction after the other, each time the one whose items find the most
//	     room, so that its items share overflow bits. Items that are still left are inserted
//	     when all ranges are filled (P1).
package place
