// Command simulate compares ideas of how a line knows which of its items are away, over the life
// of a filter: fill, then turnovers in which each operation deletes a key and inserts another.
//
//	go run ./tools/simulate
//	go run ./tools/simulate -ideas directions -loads 94,96 -f 17 -turnovers 50
//
// A table in memory follows the rules of placement, without the encoding: a line is a list of
// items with a budget of bits. The ideas:
//
//	pairs        two of v overflow bits for each item that leaves, never cleared; lines do
//	             not know their guests, and any item leaves.
//	sweeps       the same bits; lines know their guests, guests go home first, and some
//	             times a turnover all bits are made again from the items that are away.
//	exact        the same bits, each cleared when no item needs it any more. Only counters
//	             outside of the table can tell: v for each line, made when a file is opened.
//	directions   each overflow bit stands for one other line. Guests are kept apart, so
//	             when one leaves, its line tells at once whether the bit may be cleared.
//	eager        directions, and a delete that makes room brings an item home, if possible one
//	             that clears a bit.
//	slotbit      eager, but guests are among the items at home, and each slot has a bit that
//	             says whether its item is one.
//	list         eager, but guests are among the items at home, and a list has their slots.
//
// Where guests are kept apart, a guest takes its quotient as well.
//
// Counters of two bits in place of overflow bits are left out. One that has reached its end can no
// longer count down and stays, so they need sweeps too, and twice the bits.
//
// For each it prints the bits per key, the false-positive rate, the share of absent keys whose
// lookup reads a second line, at first and later, the items away from home, and the moves per
// operation. The rows are made on all processors, and each is printed when those before it are.
//
// # The table
//
// Layout compact is eager, and package compact says why. Its choice rests on this table, with 16
// overflow bits, 64 quotients, and remainders of 7 bits (f = 13). A seed always gives the same table. In
// a turnover, as many keys are deleted as there are, and as many others inserted: those deleted are
// chosen at random, the oldest, or by a Zipf distribution. Second lines are those that lookups of absent
// keys read; those of sweeps are taken halfway between two sweeps. Away is the share of items that are
// not at home.
//
//	            deleted  load   bits    rate     second lines after 0, 1, 5    away    moves an   most in
//	                            a key            and 50 turnovers, %                   operation  stash
//	pairs       random   90 %   10.7    0.85 %   1.4   7.3   19    36          9.6 %   0.04          0
//	pairs       random   95 %   10.2    1.0  %   3.1   16    32    47          19 %    0.09          0
//	pairs       random   98 %    9.9    1.2  %   5.1   28    46    60          28 %    0.19          0
//	sweeps      random   90 %   10.9    0.57 %   1.5   3.5   3.1   3.4         3.9 %   0.06          0
//	sweeps      random   95 %   10.4    0.60 %   3.6   7.8   8.1   8.4         5.8 %   0.21          0
//	sweeps      random   98 %   10.0    0.62 %   8.2   43    42    44          8.4 %   0.39        389
//	exact       random   90 %   10.9    0.57 %   1.5   3.0   2.8   2.8         3.9 %   0.06          0
//	exact       random   95 %   10.4    0.60 %   3.6   5.7   5.3   5.9         5.9 %   0.20          0
//	exact       random   98 %   10.0    0.62 %   8.2   16    17    19          8.7 %   0.39        387
//	directions  random   90 %   10.9    0.57 %   3.5   6.6   6.0   6.3         4.2 %   0.06          0
//	directions  random   95 %   10.4    0.60 %   8.0   12    11    12          6.2 %   0.21          0
//	directions  random   98 %   10.0    0.62 %   15    16    16    17          7.5 %   0.55        331
//	eager       random   90 %   10.9    0.57 %   3.5   2.5   2.5   2.7         2.2 %   0.24          0
//	eager       random   95 %   10.4    0.60 %   8.0   6.1   6.1   6.2         4.6 %   0.49          0
//	eager       random   98 %   10.0    0.62 %   15    15    16    17          7.5 %   0.78        314
//	slotbit     random   90 %   12.1    0.52 %   3.0   2.7   2.2   2.4         2.4 %   0.24          0
//	slotbit     random   95 %   11.5    0.55 %   5.7   4.5   4.8   5.1         4.8 %   0.41          0
//	slotbit     random   98 %   11.1    0.56 %   8.7   7.7   7.2   7.1         5.9 %   0.58          0
//	list        random   90 %   10.9    0.57 %   3.5   2.5   2.5   2.7         2.2 %   0.24          0
//	list        random   95 %   10.4    0.60 %   8.0   6.1   6.1   6.2         4.6 %   0.49          0
//	list        random   98 %   10.0    0.62 %   15    15    16    17          7.5 %   0.78        314
//	eager       oldest   90 %   10.9    0.57 %   3.5   2.3   2.5   2.6         2.3 %   0.25          0
//	eager       oldest   95 %   10.4    0.60 %   8.0   6.2   6.4   5.9         4.2 %   0.49          0
//	eager       oldest   98 %   10.0    0.62 %   15    15    16    16          7.5 %   0.78        311
//	eager       zipf     90 %   10.9    0.57 %   3.5   2.3   2.2   2.4         2.1 %   0.22          0
//	eager       zipf     95 %   10.4    0.60 %   8.0   5.4   5.0   4.9         3.9 %   0.46          0
//	eager       zipf     98 %   10.0    0.62 %   15    15    14    14          6.7 %   0.48        308
//
// The first two of these commands make the table, in this order. The third shows that with 16 sweeps a
// turnover second lines are about as few as those of eager:
//
//	go run ./tools/simulate -lines 400 -kinds random -loads 90,95,98
//	go run ./tools/simulate -lines 400 -kinds oldest,zipf -loads 90,95,98 -ideas eager
//	go run ./tools/simulate -lines 400 -kinds random -loads 95 -ideas sweeps -sweeps 16
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

var allIdeas = []string{"pairs", "sweeps", "exact", "directions", "eager", "slotbit", "list"}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	flags.SetOutput(errs)
	var (
		ideas     = flags.String("ideas", strings.Join(allIdeas, ","), "what is compared")
		loads     = flags.String("loads", "80,90,94,96,98", "items, in percent of what a line has room for if all are at home")
		kinds     = flags.String("kinds", "oldest,random,zipf", "which key is deleted")
		f         = flags.Int("f", 13, "bits of a fingerprint")
		bits      = flags.Int("bits", 16, "overflow bits of a line")
		reach     = flags.String("reach", "near", "other lines of a direction: near or far")
		lines     = flags.Int("lines", 4000, "lines of a table")
		turnovers = flags.Int("turnovers", 50, "times that as many keys are replaced as there are")
		sweeps    = flags.Int("sweeps", 4, "times a turnover that the idea sweeps makes all bits again")
		seed      = flags.Uint64("seed", 1, "of all random numbers")
	)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var all []*setting
	for idea := range strings.SplitSeq(*ideas, ",") {
		for kind := range strings.SplitSeq(*kinds, ",") {
			for load := range strings.SplitSeq(*loads, ",") {
				percent, err := strconv.ParseFloat(load, 64)
				s := &setting{idea: idea, kind: kind, load: percent / 100, f: *f, v: *bits, far: *reach == "far", lines: *lines, turnovers: *turnovers, sweeps: *sweeps, seed: *seed}
				if err = errors.Join(err, s.check()); err != nil {
					fmt.Fprintln(errs, "simulate:", err)
					return 2
				}
				all = append(all, s)
			}
		}
	}
	t := figures.NewTable("idea", "load", "deleted", "bits a key", "rate", "second line, filled", "after 1", "after 5", fmt.Sprintf("after %d", *turnovers), "away", "moves an operation", "most in stash")
	fmt.Fprint(out, t)
	inOrder(len(all), func(i int) []string { return all[i].row() }, func(row []string) { fmt.Fprint(out, t.Line(row...)) })
	return 0
}

// inOrder makes n rows, on all processors, and prints each as soon as it and those before it are
// made.
func inOrder(n int, row func(i int) []string, print func(row []string)) {
	rows := make([]chan []string, n)
	for i := range rows {
		rows[i] = make(chan []string, 1)
	}
	var begun atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for i := int(begun.Add(1)) - 1; i < n; i = int(begun.Add(1)) - 1 {
				rows[i] <- row(i)
			}
		}()
	}
	for _, r := range rows {
		print(<-r)
	}
}

func (s *setting) check() error {
	switch {
	case !slices.Contains(allIdeas, s.idea):
		return fmt.Errorf("there is no idea %q", s.idea)
	case !slices.Contains([]string{"oldest", "random", "zipf"}, s.kind):
		return fmt.Errorf("%q is no way to choose a key", s.kind)
	case !(s.load > 0 && s.load <= 1) || s.f < 10 || s.f > 22 || s.v < 1 || s.v > 48 || s.lines < 2 || s.turnovers < 5 || s.sweeps < 1:
		return errors.New("a number is out of its range")
	}
	return nil
}

// row simulates a life and returns its results.
func (s *setting) row() []string {
	life := newLife(s)
	var at []string
	life.fill()
	report := func() { at = append(at, percent(life.table.second())) }
	report()
	for n := range s.turnovers {
		life.turnover()
		if n == 0 || n == 4 || n == s.turnovers-1 {
			report()
		}
	}
	t := life.table
	items := float64(t.items) / float64(len(t.lines))
	row := []string{s.idea, percent(s.load), s.kind, figures.Digits(512 / items), percent(t.rate())}
	for len(at) < 4 {
		at = append(at, "")
	}
	return append(append(row, at...), percent(t.away()), figures.Digits(life.moves()), fmt.Sprint(t.mostStashed))
}

func percent(x float64) string { return strconv.FormatFloat(100*x, 'g', 3, 64) + " %" }
