package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// seedVariable names the environment variable for the seed of the hash, used if neither --seed
// nor --seed-file is given.
const seedVariable = "MMAPFILTER_SEED"

// seedFlags holds the flags for the seed of the hash. The seed is a secret, and other users of
// the machine can read a command line, hence --seed-file.
type seedFlags struct {
	flags *pflag.FlagSet
	given uint64
	file  string
}

// addSeedFlags adds the flags. without is the help text for the seed if no flag is given.
func addSeedFlags(flags *pflag.FlagSet, without string) *seedFlags {
	s := &seedFlags{flags: flags}
	flags.Func("seed", "seed `N` of the hash: keep it secret if strangers choose keys ("+without+")", func(text string) (err error) {
		s.given, err = parseSeed(text)
		return err
	})
	flags.StringVar(&s.file, "seed-file", "", "`FILE` with the seed; or set MMAPFILTER_SEED")
	return s
}

const errSeed = demand("takes a 64-bit number, such as 12345 or 0xfeed")

// parseSeed parses a number in decimal or, after 0x, in hex. It rejects other leading zeros,
// which could mean octal.
func parseSeed(text string) (uint64, error) {
	seed, err := strconv.ParseUint(text, 0, 64)
	if hex := strings.HasPrefix(strings.ToLower(text), "0x"); err != nil || text[0] == '0' && text != "0" && !hex {
		return 0, errSeed
	}
	return seed, nil
}

// seed returns the seed and whether one was given. No error reveals it.
func (s *seedFlags) seed() (seed uint64, asked bool, err error) {
	var sources []string
	for _, name := range []string{"seed", "seed-file"} {
		if s.flags.Changed(name) {
			sources = append(sources, "--"+name)
		}
	}
	inVariable := os.Getenv(seedVariable)
	if inVariable != "" {
		sources = append(sources, seedVariable)
	}
	switch {
	case len(sources) == 0:
		return 0, false, nil
	case len(sources) > 1:
		return 0, false, fmt.Errorf("the seed is given more than once, by %s", strings.Join(sources, " and "))
	case sources[0] == "--seed":
		return s.given, true, nil
	case sources[0] == "--seed-file":
		seed, err = readSeed(s.file)
	default:
		if seed, err = parseSeed(inVariable); err != nil {
			err = fmt.Errorf("%s %w", seedVariable, err)
		}
	}
	return seed, true, err
}

// readSeed reads a file that contains one number, with optional white space around it.
func readSeed(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, &fileError{path, err}
	}
	defer f.Close()
	const limit = 4096 // the wrong file may be large
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return 0, &fileError{path, err}
	}
	seed, err := parseSeed(strings.TrimSpace(string(text)))
	if err != nil || len(text) == limit {
		return 0, &fileError{path, errors.New("does not hold one 64-bit number, such as 12345 or 0xfeed")}
	}
	return seed, nil
}

func formatSeed(seed uint64) string { return fmt.Sprintf("0x%016x", seed) }
