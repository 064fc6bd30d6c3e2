package main

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Suffixes that may follow a number. B is a billion in a count, and a byte in a size, so the two
// have separate tables.
var (
	countSuffixes = map[string]int64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
	sizeSuffixes  = map[string]int64{
		"": 1, "B": 1,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}
)

// parseCount parses a number of keys, such as 1e9, 2.5B, 10M, 4k or 1_000_000.
func parseCount(text string) (uint64, error) {
	return parseQuantity(text, countSuffixes, "k, M, B (billion) or T")
}

// parseSize parses a number of bytes, such as 8GiB, 512MiB, 64MB or 1e9.
func parseSize(text string) (int64, error) {
	n, err := parseQuantity(text, sizeSuffixes, "kB, MB, GB, TB, KiB, MiB, GiB or TiB")
	if err == nil && n > 1<<63-1 {
		err = errTooLarge
	}
	return int64(n), err
}

var errTooLarge = errors.New("too large")

// quantity matches a number and a suffix. The number has digits, which underscores may group,
// and may have a fraction and an exponent of one or two digits.
var quantity = regexp.MustCompile(`^([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)([A-Za-z]*)$`)

// parseQuantity computes in exact fractions, so that rounding cannot change whether the result
// is a whole number.
func parseQuantity(text string, suffixes map[string]int64, known string) (uint64, error) {
	if strings.HasPrefix(text, "-") {
		return 0, errors.New("negative")
	}
	m := quantity.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("not a number")
	}
	multiplier, ok := suffixes[m[2]]
	if !ok {
		return 0, fmt.Errorf("unknown suffix %q; use %s", m[2], known)
	}
	value, ok := new(big.Rat).SetString(strings.ReplaceAll(m[1], "_", ""))
	if !ok {
		return 0, errors.New("not a number")
	}
	value.Mul(value, new(big.Rat).SetInt64(multiplier))
	switch {
	case !value.IsInt():
		return 0, errors.New("not a whole number")
	case !value.Num().IsUint64():
		return 0, errTooLarge
	}
	return value.Num().Uint64(), nil
}

// weeksAndDays matches the units of a duration that package time does not have, and the rest.
var weeksAndDays = regexp.MustCompile(`^(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(.*)$`)

// parseAge parses a duration, such as 2w, 1d12h or 90m. A day has 24 hours. A duration below least is an
// error.
func parseAge(text string, least time.Duration) (time.Duration, error) {
	m := weeksAndDays.FindStringSubmatch(text)
	rest := text
	if m != nil && m[1]+m[2] != "" {
		weeks, _ := strconv.ParseInt("0"+m[1], 10, 64)
		days, _ := strconv.ParseInt("0"+m[2], 10, 64)
		rest = strconv.FormatInt(24*(7*weeks+days), 10) + "h" + m[3]
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < least {
		return 0, demand(fmt.Sprintf("must be a duration of at least %v, such as 30d, 24h or 90m", least))
	}
	return d, nil
}

// formatAge writes a duration without zeros at its end: 24h, not 24h0m0s.
func formatAge(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if rest, ok := strings.CutSuffix(s, zero); ok && rest != "" && !isDigit(rest[len(rest)-1]) {
			s = rest
		}
	}
	return s
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// A demand is an error about the value of a flag. Its text goes on after the name of the flag: must be
// at least 1.
type demand string

func (d demand) Error() string { return string(d) }

const errAtLeastOne = demand("must be at least 1")

// formatCount writes a number with its digits in groups: 1,234,567.
func formatCount[T uint64 | int64 | int](n T) string {
	digits := strconv.FormatUint(uint64(n), 10)
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(digits[i])
	}
	return b.String()
}

// formatNumber writes a number of things with their name.
func formatNumber[T uint64 | int64 | int](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(n) + " " + many
}

// formatSize writes a number of bytes twice: rounded, in the unit that leaves one to four digits before
// the point, and exactly: 1.9 MiB (1,986,560 bytes).
func formatSize(n int64) string {
	return fmt.Sprintf("%s (%s bytes)", roundSize(n), formatCount(n))
}

func roundSize(n int64) string {
	value, unit := float64(n), 0
	for value >= 1024 && unit < 4 {
		value /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGT"[unit-1])
}

// formatRate writes a rate with three digits.
func formatRate(r float64) string { return strconv.FormatFloat(r, 'g', 3, 64) }
