// Package place decides where an item goes: the one policy of placement, for inserts
// and for builds.
//
// A Placer works on Lines: those of an operation that a writer logs, or Direct, those
// of a file under construction that nobody reads yet. It loses no item. If it refuses
// one, nothing has changed.
//
// # The rules
//
//	P1  An item goes to the first of these that takes it: its home line, with moves
//	    inside the line; its alternate line, likewise; a line that a path of moves makes
//	    room in (P2); the stash. If none does, it is refused. If the layout chooses who
//	    leaves a line (Bounds.ChooseFirst), the alternate line is no step of its own: it
//	    is one of the lines where a path may lead.
//	P2  A path is searched breadth first, from both lines of the item: each line that is
//	    searched lists the items that could leave it, first the cheapest few and then
//	    all, and the first whose other line has room ends the path. A line is tried
//	    once. If the layout chooses who leaves, the search starts in the home line
//	    alone, the item itself is one of those that may leave, and those that set the
//	    fewest overflow bits come first, so that fewer lookups of absent keys go on to a
//	    second line.
//	P3  Nothing is changed before a path is complete. Then it is carried out from its
//	    end: an item is in its new line before it leaves the old one.
//	P4  An item that is not in its home line has its overflow bits set there: the item
//	    that is placed, in its home line, and an item that is moved, in the line that it
//	    leaves. If lines know their guests (layout.Hosts), bits are set in home lines
//	    alone, and cleared as soon as nobody needs them: when the last item that has them
//	    comes home, or is deleted. Otherwise nobody knows who needs them, and they stay.
//	P5  A delete takes an item from its home line, else from the stash, else from its
//	    alternate line. A copy in the alternate line may be a twin, an equal item whose
//	    home is that line. If no overflow bits are set there, a lookup of the twin looks
//	    nowhere else, so the twin must be the last to go.
//	P6  An item leaves the stash for one of its lines by P1 and P2. Its overflow bits were
//	    set when it went to the stash.
//	P7  The work on one item is bounded: a search looks at Bounds.SearchLines lines, a path
//	    has Bounds.PathMoves moves, and an operation changes MaxStores words.
//	P8  If lines know their guests, they go home: a guest is the first to leave a full
//	    line (P2), and a delete that makes room in a line, which no item of the stash takes
//	    (P6), brings one home that is away from it, the one that clears an overflow bit if
//	    there is one. So a filter that is deleted from and
//	    inserted into for years has no more items away than when it was filled.
//
// # Builds
//
// A build has all items at once and places most of them line by line, in the order of
// the file (package builder). It starts with P1's home lines. Then items go from line
// to line in rounds instead of one search each, under the same rules: a line that is
// full takes an item in if another, or the item itself, leaves for its other line; who
// leaves has its overflow bits set (P4). Since a build knows how much room each line
// has, it prefers items whose other line has room to those with few new overflow bits.
// The few that the rounds leave over are placed by Settle, which is P1, P2 and the
// stash for items whose overflow bits are set.
//
// # Looking ahead
//
// Of a batch of inserts, LookAhead finds out many lines at a time which are full, so
// that their cache misses overlap. An Outlook is a hint: it says of full lines that
// they are full, which stays true while only inserts follow, and saves the Placer a
// look at them. Dropping it changes no result, only the time that an insert takes.
package place
