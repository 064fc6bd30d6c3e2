package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// A session is one run of a command.
type session struct {
	ctx   context.Context
	out   io.Writer
	notes io.Writer // progress
	flags *flag.FlagSet
	temp  string // directory for files; removed at the end

	mapped string // how the last filter built is mapped: "ext4, all in pages of 4 KiB"

	size   Size // of the lines of the filter to build
	rounds int
	seed   uint64
	dir    string // parent of temp
	short  bool
}

// parse creates a command, and sets its own flags and the flags of every command. With -short, a
// flag that is not given takes its value from command.short.
func (s *session) parse(args []string, create func(*session) command) (cmd command, err error) {
	s.flags = flag.NewFlagSet("bench "+args[0], flag.ContinueOnError)
	s.flags.SetOutput(s.notes)
	s.flags.Var(&s.size, "size", "size of the lines of the filter it builds")
	s.flags.IntVar(&s.rounds, "rounds", 15, "how often everything that is measured takes its turn")
	s.flags.Uint64Var(&s.seed, "seed", 1, "seed of the keys and of random choices")
	s.flags.StringVar(&s.dir, "dir", os.TempDir(), "directory for the files it builds; on a disk, where that matters")
	s.flags.BoolVar(&s.short, "short", false, "small and quick: to see that it works, not what it measures")
	cmd = create(s)
	if err := s.flags.Parse(args[1:]); err != nil {
		return cmd, err
	}
	if s.flags.NArg() > 0 {
		return cmd, fmt.Errorf("unexpected argument %q", s.flags.Arg(0))
	}
	if !s.short {
		return cmd, nil
	}
	given := map[string]bool{}
	s.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range cmd.short {
		if !given[name] {
			if err := s.flags.Set(name, value); err != nil {
				return cmd, err
			}
		}
	}
	return cmd, nil
}

// listFlag defines a flag that is a comma-separated list.
func listFlag[T any](s *session, to *[]T, name, value, usage string, parse func(word string) (T, error)) {
	set := func(text string) error {
		*to = nil
		for word := range strings.SplitSeq(text, ",") {
			v, err := parse(word)
			if err != nil {
				return err
			}
			*to = append(*to, v)
		}
		return nil
	}
	set(value)
	s.flags.Func(name, usage+", comma-separated (default "+value+")", set)
}

// countFlag defines a flag that is a number of keys.
func (s *session) countFlag(to *uint64, name, value, usage string) {
	set := func(text string) (err error) { *to, err = parseCount(text); return err }
	set(value)
	s.flags.Func(name, usage+" (default "+value+")", set)
}

// parseCount parses a number such as 500000, 10M or 2B.
func parseCount(text string) (uint64, error) {
	digits, factor := text, uint64(1)
	for suffix, f := range map[string]uint64{"K": 1e3, "M": 1e6, "B": 1e9} {
		if d, ok := strings.CutSuffix(text, suffix); ok {
			digits, factor = d, f
		}
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a number of keys such as 500000, 10M or 2B", text)
	}
	return n * factor, nil
}

// parseSize parses a size such as 1GiB.
func parseSize(text string) (size Size, err error) {
	err = size.Set(text)
	return size, err
}

// takeTurns runs rounds of n turns, each round starting with another turn. It returns the
// values of each turn, one for each round.
func (s *session) takeTurns(n int, turn func(i int) (float64, error)) ([][]float64, error) {
	all := make([][]float64, n)
	for round := range s.rounds {
		for k := range n {
			if err := s.ctx.Err(); err != nil {
				return nil, err
			}
			i := (round + k) % n
			v, err := turn(i)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], v)
		}
	}
	return all, nil
}

func (s *session) path(name string) string { return filepath.Join(s.temp, name) }

func (s *session) printf(format string, args ...any) { fmt.Fprintf(s.out, format, args...) }

// print prints a table between blank lines.
func (s *session) print(t *Table) { s.printf("\n%s\n", t) }

// note prints progress.
func (s *session) note(format string, args ...any) {
	fmt.Fprintf(s.notes, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// A command runs once its flags are set. The function that creates it defines the flags. short
// holds the defaults of flags in a run with -short.
type command struct {
	short map[string]string
	run   func() error
}

// bytesOf returns the size of all files whose names match a pattern.
func bytesOf(pattern string) (n int64) {
	files, _ := filepath.Glob(pattern)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			n += info.Size()
		}
	}
	return n
}

// dropDir drops the files below a directory from the page cache.
func dropDir(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return dropCache(path)
	})
}

// forget returns unused memory to the system, before something of the same size is made.
func forget() { debug.FreeOSMemory() }
