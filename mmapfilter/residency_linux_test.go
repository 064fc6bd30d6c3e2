package mmapfilter

import (
	"bufio"
	"os"
	"runtime"
	"strings"
	"testing"
)

// vmFlags gives the flags that the kernel keeps for the mapping of a file.
func vmFlags(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip("NOT TESTED: what the kernel knows of mappings: ", err)
	}
	defer f.Close()
	found := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.Contains(lines.Text(), path) {
			found = true
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && found {
			return " " + flags + " "
		}
	}
	return ""
}

// TestResidencyReachesTheKernel looks at what each choice does to the mapping:
// rr is random access, lo is locked. A file that is not sealed is always mapped
// for random access (R4).
func TestResidencyReachesTheKernel(t *testing.T) {
	for _, c := range []struct {
		name           string
		residency      Residency
		random, locked bool
		mapped         bool
	}{
		{"blocked-seed", ResidencyDefault, false, false, true},
		{"blocked-seed", ResidencyRandom, true, false, true},
		{"blocked-seed", ResidencyLock, false, true, true},
		{"blocked-seed", ResidencyHeap, false, false, false},
		{"blocked-clean", ResidencyDefault, true, false, true},
		{"blocked-clean", ResidencyPopulate, true, false, true},
		{"blocked-clean", ResidencyLock, true, true, true},
	} {
		f, err := OpenReadOnly("../testdata/"+c.name+".mmf", &OpenOptions{Residency: c.residency})
		if err != nil {
			t.Fatal(err)
		}
		flags := vmFlags(t, c.name+".mmf")
		if (flags != "") != c.mapped || strings.Contains(flags, " rr ") != c.random || strings.Contains(flags, " lo ") != c.locked {
			t.Errorf("%s, %s: flags %q", c.name, c.residency, flags)
		}
		f.Close()
		waitUnmapped(t, c.name+".mmf")
	}
}

// waitUnmapped has the mappings of closed filters go, which a collection does.
func waitUnmapped(t *testing.T, path string) {
	t.Helper()
	for range 1000 {
		if vmFlags(t, path) == "" {
			return
		}
		runtime.GC()
	}
	t.Error("a closed filter stays mapped")
}
