package main

import (
	"slices"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"1GiB": 1 << 30, "256MiB": 256 << 20, "3KiB": 3 << 10, "4097": 4097, "1048576": 1 << 20} {
		var got Size
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
		var again Size
		if err := again.Set(got.String()); err != nil || again != got {
			t.Errorf("%s: printed as %s", text, got.String())
		}
	}
	for _, text := range []string{"", "0", "-1", "1GB", "GiB", "1.5GiB", "9223372036854775807GiB", "1 GiB"} {
		var got Size
		if err := got.Set(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1234567: "1,234,567"} {
		if got := Grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", 0.0123: "0.012", 1.234: "1.23", 12.34: "12.3", 1234.5: "1,235"} {
		if got := Digits(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0 ns", 999: "999 ns", 1500: "1.50 µs", 12345678: "12.3 ms", 2 * time.Second: "2.00 s"} {
		if got := Brief(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 1: {1}, 2: {3, 1, 2}, 3: {4, 3, 2, 1}} {
		before := slices.Clone(values)
		if got := Median(values); got != want || !slices.Equal(before, values) {
			t.Errorf("%v: %v, want %v", before, got, want)
		}
	}
	if got := MedianRatio([]float64{2, 9, 8}, []float64{1, 3, 2}); got != 3 {
		t.Errorf("the median of 2, 3 and 4 is given as %v", got)
	}
}

func TestTable(t *testing.T) {
	table := NewTable("a", "b")
	table.Row("1|2", "x\ny")
	table.Row("3")
	if got, want := table.String(), "| a | b |\n|---|---|\n| 1\\|2 | x y |\n| 3 |  |\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
