//go:build faults

package mistakes

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A check is a test that may find a mistake.
type check struct {
	in    string // the package
	args  []string
	found pattern
}

// A pattern matches the output of a check that finds a mistake; the last group is what the check has
// found. Other failures are no evidence, for example if a mistake keeps the check from starting.
type pattern struct {
	*regexp.Regexp
	file, text string // for at
}

// withFaults are the checks that need the build tag faults.
var withFaults = []string{"TestOrderOfPublish", "TestPublisherHasTheLock", "TestOrderOfCalls", "TestFailEverySpoolWrite", "TestCallsOfApply", "TestCallsOfReplace", "TestPowerCutsOfReplace"}

// at matches an error that a test reports in a file, with a text that the package of this file has in
// its code.
func at(file, text string) pattern {
	return pattern{regexp.MustCompile(`(?m)^ +` + file + `\.go:\d+: (.*` + regexp.QuoteMeta(text) + `.*)$`), file, text}
}

// matching returns a pattern for the whole output.
func matching(expr string) pattern { return pattern{Regexp: regexp.MustCompile(`(?m)` + expr)} }

// checks holds tests by name. A test that is not here finds a mistake by any error in its own file.
var checks = map[string]check{
	"TestDeleteOrder":              {"mmapfilter/internal/place", nil, at("place_test", "home, stash, second line have ")},
	"TestExplore":                  {writer, []string{"-states", "100000"}, matching(`^ +crash_test\.go:\d+: (O[1-9][0-9]*: .*)$`)},
	"TestSchedules":                {writer, nil, at("schedule_test", "a schedule misses ")},
	"TestRecoverySchedules":        {writer, nil, at("schedule_test", "a schedule misses ")},
	"TestReplaceSchedules":         {writer, nil, at("replace_schedule_test", "a schedule misses ")},
	"TestCopyOfGenerations":        {writer, nil, at("copy_test", "the copy lacks operations")},
	"TestCopyBesideRecovery":       {writer, nil, at("copy_test", " stores, a copy has ")},
	"TestReplay":                   {writer, nil, at("replay_test", "the replay: ")},
	"TestJoint":                    {joint, []string{"-states", "20000"}, at("joint_test", " is hidden")},
	"TestReplayed":                 {joint, nil, at("epochs_test", "one is missing")},
	"TestEveryCrash":               {"mmapfilter/guard", nil, at("walk_test", " is hidden")},
	"TestEveryMeanwhile":           {"mmapfilter/guard", nil, at("walk_test", " is hidden")},
	"TestTouched":                  {"mmapfilter/guard", nil, at("touched_test", " is hidden")},
	"TestPast":                     {"mmapfilter/guard/badgerguard", nil, at("past", " is hidden")},
	"TestSince":                    {"mmapfilter/guard/badgerguard", nil, at("versions_test", "after version ")},
	"TestHistoryHonest":            {"mmapfilter", []string{"-history", "12000000"}, matching(`^ +history_test\.go:\d+: (seed \d+, step \d+: .*), after$`)},
	"TestHistoryStrays":            {"mmapfilter", []string{"-history", "12000000"}, matching(`^ +history_test\.go:\d+: (seed \d+, step \d+: .*), after$`)},
	"TestReplaceOfHistory":         {writer, nil, at("history_test", "named ")},
	"TestOrderDecides":             {"mmapfilter/internal/build", nil, at("order_test", "items of ages ")},
	"TestHistory":                  {"mmapfilter/internal/build", nil, at("verify_test", " and a stray delete")},
	"TestSalvageWithTheLog":        {"recovery", nil, at("salvage_test", " operations of ")},
	"TestSalvageWithTheLogOfACopy": {"recovery", nil, at("salvage_test", " operations of ")},
	"TestUncountedPages":           {"recovery", nil, at("kept_test", " pages of ")},
	"TestPublishMarksTheOldFile":   {"recovery/osfile", nil, at("recovery_test", " bytes, which are wrong")},
	"TestSyncBesideASync":          {writer, nil, at("sync_beside_test", "it returned before ")},
	"TestWindow":                   {"mmapfilter/internal/build", nil, at("window_test", "")},
	"TestFull":                     {"mmapfilter", nil, at("rules_test", " keys: ")},
	"TestChanges":                  {"mmapfilter", nil, at("changes_test", "")},
	"TestAgesInKeptReplica":        {"mmapfilter", nil, at("helpers_test", " is lost")},
	"TestPartOfASet":               {"mmapfilter", nil, at("apply_part_test", ": Merge: ")},
	"TestDamage":                   {"mmapfilter/internal/changes", nil, at("changes_test", "blocks ")},
	"TestTranscripts":              {served, nil, at("transcript_test", "")},
	"TestCloseInTheMiddle":         {served, nil, matching(`^(?: +poll_linux_test\.go:\d+|panic): (.*)$`)},
	"TestReaderLongCommands":       {"tools/internal/resp", nil, at("resp_test", " commands, ")},
	"TestReaderMemory":             {"tools/internal/resp", nil, at("resp_test", "a client that promises ")},
	"TestKill":                     {"tools/kill", []string{"-lives", "2000"}, matching(`^ +(VIOLATION.*)$`)},
}

// sources has the Go files of the repository.
var sources = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			text, _ := os.ReadFile(path) // checkOf reports a test that cannot be read
			all[path] = string(text)
		}
		return nil
	})
	return all
})

// files returns the files that have a test of a name.
func files(test string) (paths []string) {
	for path, text := range sources() {
		if strings.HasSuffix(path, "_test.go") && strings.Contains(text, "\nfunc "+test+"(") {
			paths = append(paths, path)
		}
	}
	return paths
}

// says reports whether a package with the given file has a text in its code.
func says(file, text string) bool {
	for path := range sources() {
		if filepath.Base(path) != file+".go" {
			continue
		}
		for other, code := range sources() {
			if filepath.Dir(other) == filepath.Dir(path) && strings.Contains(code, text) {
				return true
			}
		}
	}
	return false
}

// checkOf returns the test with the given name. Unless it is in checks, only one file may have such a
// test.
func checkOf(name string) (check, error) {
	if c := checks[name]; c.found.Regexp != nil {
		if text := c.found.text; text != "" && !says(c.found.file, text) {
			return c, fmt.Errorf("%s is expected to say %q, which is not in the package of %s.go", name, text, c.found.file)
		}
		return c, nil
	}
	in := files(name)
	if len(in) != 1 {
		return check{}, fmt.Errorf("%s is in %q, not in one file", name, in)
	}
	dir, file := filepath.Split(strings.TrimPrefix(filepath.ToSlash(in[0]), "../../../"))
	return check{strings.TrimSuffix(dir, "/"), nil, at(strings.TrimSuffix(file, ".go"), "")}, nil
}

const (
	writer = "mmapfilter/internal/writer"
	served = "tools/internal/server"
	joint  = "mmapfilter/guard/pebbleguard" // a module of its own
)

var allMistakes = flag.Bool("all", false, "TestMistakes checks all mistakes, not a third of them")

// TestMistakes requires that all checks that a mistake names find it, and that five checks find nothing
// in the code as it is. It tests two mistakes at a time, so that one is built while the checks of
// another run. Unless -all is set, it tests a third of the mistakes, chosen at random.
//
//	go test -tags faults ./tools/internal/mistakes -run TestMistakes -v -all
func TestMistakes(t *testing.T) {
	var mu sync.Mutex
	rows := make(map[string]string)
	all := list(t)
	for _, m := range all {
		for _, name := range m.FoundBy {
			if _, err := checkOf(name); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
	if t.Failed() {
		return
	}
	if third := rand.IntN(3); !*allMistakes {
		t.Logf("third %d", third)
		n := 0
		all = slices.DeleteFunc(all, func(Mistake) bool { n++; return n%3 != third })
	}
	t.Run("found", func(t *testing.T) {
		none := Mistake{Name: "none", FoundBy: []string{"TestExplore", "TestSchedules", "TestRecoverySchedules", "TestReplaceSchedules", "TestReplay"}}
		for _, m := range append(all, none) {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				b := build(t, &m)
				for _, name := range m.FoundBy {
					row := b.run(t, name, m.Files != nil)
					mu.Lock()
					rows[m.Name] += fmt.Sprintf("%-24s %-22s %s\n", m.Name, name, row)
					mu.Unlock()
				}
			})
		}
	})
	table := fmt.Sprintf("%-24s %-22s %8s  %s\n", "mistake", "check", "states", "found")
	for _, m := range all {
		table += rows[m.Name]
	}
	t.Logf("\n%s%s", table, rows["none"])
}

// A built is a build of the module with a mistake.
type built struct{ module, dir string }

// build builds the programs for the checks of a mistake.
func build(t *testing.T, m *Mistake) built {
	b := built{module(t), t.TempDir()}
	overlay, err := m.Overlay(b.module, b.dir)
	must(t, err)
	for _, name := range m.FoundBy {
		check, err := checkOf(name)
		must(t, err)
		if _, err := os.Stat(b.program(check.in)); err == nil {
			continue // another check of the same package
		}
		args := []string{"test", "-c", "-vet=off"}
		if slices.Contains(withFaults, name) {
			args = append(args, "-tags=faults")
		}
		if check.in == "mmapfilter" { // compiling its many tests takes longer than running one
			args = append(args, "-gcflags=-N -l")
		}
		c := exec.CommandContext(t.Context(), "go", append(args, "-overlay", overlay, "-ldflags=-w", "-o", b.program(check.in), ".")...)
		c.Dir = filepath.Join(b.module, check.in)
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s does not compile: %v\n%s", m.Name, err, said)
		}
	}
	return b
}

// program returns the path of the tests of a package.
func (b built) program(in string) string { return filepath.Join(b.dir, filepath.Base(in)+".exe") }

// run runs a check, which must find the mistake if there is one, and succeed otherwise. It
// returns the row of the table.
func (b built) run(t *testing.T, name string, mistaken bool) (row string) {
	check, err := checkOf(name)
	must(t, err)
	c := exec.CommandContext(t.Context(), b.program(check.in), append(check.args, "-test.v", "-test.run", "^"+name+"$")...)
	c.Env = append(os.Environ(), "TMPDIR="+b.dir)
	if name != "TestKill" { // TestKill needs goroutines that run in parallel
		c.Env = append(c.Env, "GOMAXPROCS=1") // another mistake uses the other processor
	}
	var errs strings.Builder
	c.Dir, c.Stderr = filepath.Join(b.module, check.in), &errs
	out, err := c.Output()
	said := errs.String() + string(out)
	found := check.found.FindStringSubmatch(said)
	switch {
	case mistaken && (err == nil || found == nil):
		t.Errorf("%s does not find the mistake (%v):\n%s", name, err, said)
	case !mistaken && err != nil:
		t.Errorf("%s finds something in the code as it is: %v\n%s", name, err, said)
	}
	what := "nothing"
	if found != nil {
		what = found[len(found)-1]
	}
	return fmt.Sprintf("%8s  %.70s", first(`(\d+) crash states`, said), what)
}

// first returns the first submatch of a regular expression, or "".
func first(pattern, text string) string {
	if found := regexp.MustCompile(pattern).FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
