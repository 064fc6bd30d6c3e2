// Package sizing works out how large a filter must be: its layout, f, b and number of lines, and how
// many keys it then takes.
//
// # The size
//
// Every layout that may be chosen, with each f and b that was asked for, is a candidate at the highest
// design load at which the rate is predicted to be low enough, and at which the stash has room for what
// finds no slot. Of the candidates, the best is one that lasts; then one of which a lookup reads the
// fewest lines, to the nearest whole one; then the smallest. If f was asked for, the design load is the
// usual one, whatever the rate.
//
// A prediction (layout.Predict) is allowed to be a little too low: see RateMargin. What goes into a file
// has 4 digits, since the last bits of a prediction depend on the machine.
//
// # The limit
//
// A filter takes keys beyond its capacity, but its rate rises with them. The Limit is where it is
// OverRate times the one asked for (C4). In most filters the slots are used up before.
package sizing
