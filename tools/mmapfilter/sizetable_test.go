package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestSizeTable compares the table of builds at a given time a key with what size prints for each
// filter alone (testdata/size.txt).
func TestSizeTable(t *testing.T) {
	var out bytes.Buffer
	if err := printSizes(&out, mmapfilter.Options{}, 20e-9); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"  keys        5 %        1 %      0.1 %     0.01 %  hashes in memory       disk   time\n" +
		"    1M  988.0 KiB    1.3 MiB    1.7 MiB    2.2 MiB           7.6 MiB    7.6 MiB  0.0 s\n" +
		"   10M    9.3 MiB   12.4 MiB   17.0 MiB   21.5 MiB          76.3 MiB   76.3 MiB  0.2 s\n" +
		"  100M   92.9 MiB  123.6 MiB  169.2 MiB  214.3 MiB         256.0 MiB  762.9 MiB  2.0 s\n" +
		"    1B  927.8 MiB    1.2 GiB    1.7 GiB    2.1 GiB         256.0 MiB    7.5 GiB   20 s\n" +
		"   10B    9.1 GiB   12.1 GiB   16.5 GiB   20.9 GiB         256.0 MiB   74.5 GiB  200 s\n"
	if out.String() != want {
		t.Errorf("\n%s", &out)
	}
	if each, err := trialBuild(context.Background()); err != nil || !(each > 0) {
		t.Errorf("%g s a key, %v", each, err)
	}
}
