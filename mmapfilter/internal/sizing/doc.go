// Package sizing works out how large a filter must be: its layout, f, b and number of lines, and how
// many keys it then takes.
//
// # The size
//
// A candidate is a layout that may be chosen, with an f and b that were asked for, at the highest design
// load at which the predicted rate is low enough and the stash has room for the items that find no slot.
// Candidates that last come first; of these, those whose lookups read the fewest lines, to the nearest
// whole one; of these, the smallest is chosen. If f was asked for, the design load is the usual one,
// whatever the rate.
//
// A prediction (layout.Predict) is allowed to be a little too low: see RateMargin. A rate that is stored
// in a file has 4 digits, since the last bits of a prediction depend on the machine.
//
// # The limit
//
// A filter takes keys beyond its capacity, but its rate rises with them. The Limit is where it is
// OverRate times the one asked for (C4). In most filters the slots are used up before.
package sizing
