package main

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestParseCount(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "1": 1, "007": 7, "1e9": 1e9, "1E9": 1e9, "1e+9": 1e9, "2.5B": 2.5e9, "10M": 10e6, "4k": 4000, "4K": 4000,
		"1.5T": 1.5e12, "1_000_000": 1e6, "1_0k": 10_000, "1.000": 1, "50e-1": 5, "0.001k": 1, "1e3k": 1e6,
		"18446744073709551615": math.MaxUint64, "18446744073.709551615B": math.MaxUint64,
	} {
		if got, err := parseCount(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"8GiB": 8 << 30, "512MiB": 512 << 20, "64MB": 64e6, "1e9": 1e9, "1.5KiB": 1536, "4kB": 4000, "4KB": 4000,
		"3GB": 3e9, "1TB": 1e12, "1TiB": 1 << 40, "12B": 12, "9223372036854775807": math.MaxInt64,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestParseQuantityErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "not a number", "k": "not a number", "NaN": "not a number", "Inf": "not a number", "+1": "not a number",
		"0x10": "not a number", " 1": "not a number", "1 ": "not a number", "1 k": "not a number", "_1": "not a number",
		"1_": "not a number", "1__0": "not a number", "1.": "not a number", ".5k": "not a number", "1.2.3": "not a number",
		"1e": "unknown suffix", "1e999": "not a number", "1kk": "unknown suffix", "1m": "unknown suffix",
		"1GB": "unknown suffix", "-1": "negative", "-0": "negative", "1.5": "not a whole number",
		"0.0001k": "not a whole number", "1e-1": "not a whole number", "18446744073709551616": "too large",
		"1e20": "too large", "20000000T": "too large", "1e99": "too large", "١": "not a number",
	} {
		if n, err := parseCount(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("count %q: %d, %v, want %s", text, n, err, want)
		}
	}
	for text, want := range map[string]string{
		"8G": "unknown suffix", "1gib": "unknown suffix", "0.3B": "not a whole number", "9223372036854775808": "too large",
		"8388608TiB": "too large",
	} {
		if n, err := parseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("size %q: %d, %v, want %s", text, n, err, want)
		}
	}
}

// FuzzParseCount compares the values of accepted texts with those that package big computes.
func FuzzParseCount(f *testing.F) {
	for _, seed := range []string{"1e9", "2.5B", "1_000", "-1", "NaN", "1.5", "99999999999999999999", "1e-99k"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, sizeErr := parseSize(text)
		if sizeErr == nil && size < 0 {
			t.Fatalf("%q: %d bytes", text, size)
		}
		n, err := parseCount(text)
		if err != nil {
			return
		}
		number := strings.TrimRight(text, "kKMBT")
		want, ok := new(big.Rat).SetString(strings.ReplaceAll(number, "_", ""))
		if !ok {
			t.Fatalf("%q was accepted", text)
		}
		want.Mul(want, new(big.Rat).SetInt64(countSuffixes[text[len(number):]]))
		if want.Cmp(new(big.Rat).SetUint64(n)) != 0 {
			t.Fatalf("%q: %d, want %s", text, n, want)
		}
	})
}

func TestFormat(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", math.MaxUint64: "18,446,744,073,709,551,615",
	} {
		if got := formatCount(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0 B (0 bytes)", 1023: "1023 B (1,023 bytes)", 1536: "1.5 KiB (1,536 bytes)", 1 << 50: "1024.0 TiB (1,125,899,906,842,624 bytes)",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestParseAge(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "1h30m": 90 * time.Minute, "1d": day, "30d": 30 * day, "2w": 14 * day, "1w2d3h": 9*day + 3*time.Hour,
		"": 0, "d": 0, "1": 0, "0d": 0, "-1d": 0, "1d-36h": 0, "1.5d": 0, "1d1w": 0, "1h1d": 0, "1m1d": 0, "106752d": 0, "999999999w999999999d": 0,
	} {
		if got, err := parseAge(text, time.Second); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}
