package sets

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

var update = flag.Bool("update", false, "write the golden files that are missing; one that exists is never changed")

const goldenDir = "../../testdata/set"

// TestGolden builds the set in testdata again, and reads the stored set. The folder testdata/set holds
// a set, its plan, and the spools of two tasks, with all receipts. Equal plans and keys give equal
// files, on every machine and in every version. To create missing files:
//
//	go test ./mmapfilter/sets -run TestGolden -update
func TestGolden(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 3000, FalsePositiveRate: 0.001, Normalisation: "golden", Distinct: true}, 3)
	j := newJob(t, p)
	must(t, p.Write(filepath.Join(j.spool, "plan")))
	must(t, j.partition("first", numbers(0, 2000)))
	must(t, j.partition("second", numbers(1000, 3000)))
	must(t, j.buildAll())
	must(t, j.assemble())
	for _, dir := range []string{j.spool, j.out} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			got, err := os.ReadFile(filepath.Join(dir, e.Name()))
			must(t, err)
			path := filepath.Join(goldenDir, e.Name())
			want, err := os.ReadFile(path)
			if os.IsNotExist(err) && *update {
				must(t, os.MkdirAll(goldenDir, 0o777))
				must(t, os.WriteFile(path, got, 0o666))
				continue
			}
			must(t, err)
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs from the file that is built now", path)
			}
		}
	}
	stored := mustOpen(t, filepath.Join(goldenDir, "keys.set"), nil)
	mustHave(t, stored, 0, 3000)
	if n := count(t, stored, 3000, 103_000); n > 150 || stored.Err() != nil {
		t.Errorf("%d of 100,000 absent keys found; %v", n, stored.Err())
	}
	if r, err := Verify(background, filepath.Join(goldenDir, "keys.set"), nil); err != nil || r.Items != 3000 {
		t.Errorf("%+v, %v", r, err)
	}
	read, err := ReadPlan(filepath.Join(goldenDir, "plan"))
	must(t, err)
	if read.ID() != p.ID() {
		t.Errorf("the plan has the ID %s, not %s", read.ID(), p.ID())
	}
	k := &job{read, t.TempDir(), goldenDir, t.TempDir()}
	must(t, k.buildAll())
	must(t, k.assemble())
	mustEqual(t, contents(t, k.out), contents(t, j.out))
}
