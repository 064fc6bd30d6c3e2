package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestSizeTable holds the table for builds of 20 ns a key against what size says of
// each filter alone (testdata/size.txt).
func TestSizeTable(t *testing.T) {
	var out bytes.Buffer
	if err := printSizes(&out, mmapfilter.Options{}, 20e-9); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"  keys        5 %        1 %      0.1 %     0.01 %  build: memory       disk   time\n" +
		"    1M    1.3 MiB    1.6 MiB    2.0 MiB    2.6 MiB        7.6 MiB    7.6 MiB  0.0 s\n" +
		"   10M   12.4 MiB   15.5 MiB   19.5 MiB   26.0 MiB       76.3 MiB   76.3 MiB  0.2 s\n" +
		"  100M  123.9 MiB  155.2 MiB  194.8 MiB  259.8 MiB      256.0 MiB  762.9 MiB  2.0 s\n" +
		"    1B    1.2 GiB    1.5 GiB    1.9 GiB    2.5 GiB      256.0 MiB    7.5 GiB   20 s\n" +
		"   10B   12.1 GiB   15.1 GiB   19.0 GiB   25.3 GiB      256.0 MiB   74.5 GiB  200 s\n"
	if out.String() != want {
		t.Errorf("\n%s", &out)
	}
	if each, err := trialBuild(context.Background()); err != nil || !(each > 0) {
		t.Errorf("%g s a key, %v", each, err)
	}
}
