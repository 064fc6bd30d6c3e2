package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Size is a number of bytes, usable as a flag: 1GiB, 256MiB, 4096.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

func (s *Size) Set(text string) error {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 || n > 1<<62/u.bytes {
			return fmt.Errorf("%q is not a size such as 256MiB or 1GiB", text)
		}
		*s = Size(n * u.bytes)
		return nil
	}
	return nil
}

func (s *Size) String() string { return ExactSize(int64(*s)) }

// ExactSize writes a size in the form that a flag accepts.
func ExactSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Mebibytes writes a size for a table.
func Mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Brief writes a duration with three digits.
func Brief(d time.Duration) string {
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"s", time.Second}, {"ms", time.Millisecond}, {"µs", time.Microsecond}} {
		if d >= u.unit {
			return Digits(float64(d)/float64(u.unit)) + " " + u.name
		}
	}
	return fmt.Sprintf("%d ns", d.Nanoseconds())
}

// Digits writes a number with three significant digits, and all digits before the point.
func Digits(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 100 || x <= -100:
		return Grouped(int64(x + 0.5))
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// Grouped writes a number with its digits in groups: 1,234,567.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	start := strings.Count(text, "-")
	for i := len(text) - 3; i > start; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
