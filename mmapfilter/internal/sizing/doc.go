// Package sizing works out how large a filter must be: its layout, parameters and number of lines, and
// how many keys it then takes.
//
// # The size
//
// A candidate is a layout that may be chosen, with parameters that were asked for, at the highest design
// load at which the predicted rate is low enough and the stash has room for the items that find no slot.
// The smallest one is chosen; of equal ones, that with the fewest fingerprints, whose rate is nearest to
// the one asked for. If f was asked for, the design load is the usual one, whatever the rate.
//
// A prediction (layout.Predict) is exact on average. A rate that is stored in a file has 4 digits, since
// the last bits of a prediction depend on the machine.
//
// # The limit
//
// A filter takes keys beyond its capacity, but its rate rises with them. The Limit is where it is
// OverRate times the one asked for (C4). In most filters the slots are used up before.
package sizing
