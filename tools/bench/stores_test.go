package main

import (
	"strconv"
	"strings"
	"testing"
)

// TestStoreRows checks that a guard skips reads of absent keys, and no reads of present keys.
func TestStoreRows(t *testing.T) {
	rows := short(t, "stores")
	for _, c := range []struct {
		of          string
		least, most float64
	}{{"absent", 97, 100}, {"present", 0, 0}} {
		n := 0
		for _, r := range rows {
			if r[0] != guarded || r[1] != c.of {
				continue
			}
			n++
			if skipped, err := strconv.ParseFloat(strings.TrimSuffix(r[6], " %"), 64); err != nil || skipped < c.least || skipped > c.most {
				t.Errorf("%s keys: %q", c.of, r)
			}
		}
		if n != 3 {
			t.Errorf("%d rows of %s keys, not one for each of three engines", n, c.of)
		}
	}
}
