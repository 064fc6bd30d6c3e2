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
	noError(t, printSizes(&out, mmapfilter.Options{}, 20e-9))
	const want = "" +
		"  keys        5 %        1 %      0.1 %     0.01 %  hashes in memory       disk   time\n" +
		"    1M  940.0 KiB    1.2 MiB    1.6 MiB    2.1 MiB           7.6 MiB    7.6 MiB  0.0 s\n" +
		"   10M    8.8 MiB   11.7 MiB   16.1 MiB   20.3 MiB          76.3 MiB   76.3 MiB  0.2 s\n" +
		"  100M   88.1 MiB  116.9 MiB  160.7 MiB  203.0 MiB         256.0 MiB  762.9 MiB  2.0 s\n" +
		"    1B  880.3 MiB    1.1 GiB    1.6 GiB    2.0 GiB         256.0 MiB    7.5 GiB   20 s\n" +
		"   10B    8.6 GiB   11.4 GiB   15.7 GiB   19.8 GiB         256.0 MiB   74.5 GiB  200 s\n"
	if out.String() != want {
		t.Errorf("\n%s", &out)
	}
	if each, err := trialBuild(context.Background()); err != nil || !(each > 0) {
		t.Errorf("%g s a key, %v", each, err)
	}
}
