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
	in   string // the package
	args []string
	// found matches the output of a check that finds a mistake; its last group is what the check has
	// found. Other failures are no evidence, for example if a mistake keeps the check from starting.
	found *regexp.Regexp
}

// withFaults are the checks that need the build tag faults.
var withFaults = []string{"TestOrderOfPublish", "TestPublisherHasTheLock", "TestOrderOfCalls", "TestFailEverySpoolWrite", "TestCallsOfApply", "TestCallsOfReplace", "TestPowerCutsOfReplace"}

var (
	violation = regexp.MustCompile(`(?m)^ +crash_test\.go:\d+: (O[1-9][0-9]*: .*)$`)
	miss      = regexp.MustCompile(`(?m)^ +(?:replace_)?schedule_test\.go:\d+: (.* a schedule misses [^,]*)`)
	broken    = regexp.MustCompile(`(?m)^ +history_test\.go:\d+: (seed \d+, step \d+: .*), after$`)
	history   = regexp.MustCompile(`(?m)^ +history_test\.go:\d+: (\d+ items, .*{At:.*)$`)
)

// checks holds tests by name. A test that is not here finds a mistake by any error in its own file.
var checks = map[string]check{
	"TestDeleteOrder":              {"mmapfilter/internal/place", nil, regexp.MustCompile(`(?m)^ +place_test\.go:\d+: (home, stash, second line have .*)$`)},
	"TestExplore":                  {writer, []string{"-states", "100000"}, violation},
	"TestSchedules":                {writer, nil, miss},
	"TestRecoverySchedules":        {writer, nil, miss},
	"TestReplaceSchedules":         {writer, nil, miss},
	"TestCopyOfGenerations":        {writer, nil, at("copy_test", `the copy lacks operations.*`)},
	"TestCopyBesideRecovery":       {writer, nil, at("copy_test", `after \d+ stores, a copy has.*`)},
	"TestReplay":                   {writer, nil, regexp.MustCompile(`(?m)^ +replay_test\.go:\d+: (the replay: .*)$`)},
	"TestJoint":                    {joint, []string{"-states", "20000"}, regexp.MustCompile(`(?m)^ +joint_test\.go:\d+: .*("key \d+" is hidden)`)},
	"TestReplayed":                 {joint, nil, at("epochs_test", `one is missing.*`)},
	"TestEveryCrash":               {"mmapfilter/guard", nil, at("walk_test", `.* is hidden.*`)},
	"TestEveryMeanwhile":           {"mmapfilter/guard", nil, at("walk_test", `.* is hidden.*`)},
	"TestTouched":                  {"mmapfilter/guard", nil, at("touched_test", `the guard should be building.*`)},
	"TestPast":                     {"mmapfilter/guard/badgerguard", nil, at("past", `key .* is hidden.*`)},
	"TestSince":                    {"mmapfilter/guard/badgerguard", nil, at("versions_test", `after version .*`)},
	"TestHistoryHonest":            {"mmapfilter", []string{"-history", "12000000"}, broken},
	"TestHistoryStrays":            {"mmapfilter", []string{"-history", "12000000"}, broken},
	"TestKnown":                    {writer, nil, history},
	"TestReplaceOfHistory":         {writer, nil, regexp.MustCompile(`(?m)^ +history_test\.go:\d+: (named true: .*)$`)},
	"TestLogOfAHistory":            {"layout/wal", nil, regexp.MustCompile(`(?m)^ +record_test\.go:\d+: ({At:.* LeftOut:.*)$`)},
	"TestOrderDecides":             {"mmapfilter/internal/build", nil, regexp.MustCompile(`(?m)^ +order_test\.go:\d+: .*(operations:.*: items of ages .*);`)},
	"TestHistory":                  {"mmapfilter/internal/build", nil, regexp.MustCompile(`(?m)^ +verify_test\.go:\d+: (.* and a stray delete: \[\])$`)},
	"TestSalvageWithTheLog":        {"recovery", nil, at("salvage_test", `.*operations of.*`)},
	"TestSalvageWithTheLogOfACopy": {"recovery", nil, at("salvage_test", `.*operations of.*`)},
	"TestUncountedPages":           {"recovery", nil, regexp.MustCompile(`(?m)^ +kept_test\.go:\d+: (\d+ pages of .* count): <nil>$`)},
	"TestPublishMarksTheOldFile":   {"recovery/osfile", nil, regexp.MustCompile(`(?m)^ +recovery_test\.go:\d+: (a filter.* bytes, which are wrong): <nil>$`)},
	"TestSyncBesideASync":          {writer, nil, at("sync_beside_test", `it returned before.*`)},
	"TestWindow":                   {"mmapfilter/internal/build", nil, at("window_test", `.*`)},
	"TestFull":                     {"mmapfilter", nil, at("rules_test", `with .* keys: filter is full`)},
	"TestChanges":                  {"mmapfilter", nil, at("changes_test", `.*`)},
	"TestCallsOfApply":             {"mmapfilter", nil, at("apply_faults_test", `(?:the|killed|call) .*`)},
	"TestKeptReplica":              {"mmapfilter", nil, at("apply_kept_test", `(?:at|the|it|in) .*`)},
	"TestAgesInKeptReplica":        {"mmapfilter", nil, at("helpers_test", `key .* is lost`)},
	"TestPartOfASet":               {"mmapfilter", nil, at("apply_part_test", `.* merged: .*`)},
	"TestDamage":                   {"mmapfilter/internal/changes", nil, at("changes_test", `blocks .*`)},
	"TestTranscripts":              {served, nil, at("transcript_test", `.*`)},
	"TestCloseInTheMiddle":         {served, nil, regexp.MustCompile(`(?m)^(?: +poll_linux_test\.go:\d+|panic): (.*)$`)},
	"TestReaderLongCommands":       {"tools/internal/resp", nil, at("resp_test", `\d+ commands, .*`)},
	"TestReaderMemory":             {"tools/internal/resp", nil, at("resp_test", `a client that promises.*`)},
	"TestKill":                     {"tools/kill", []string{"-lives", "2000"}, regexp.MustCompile(`(?m)^ +(VIOLATION.*)$`)},
}

// at matches an error that a test reports in a file.
func at(file, what string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^ +` + file + `\.go:\d+: (` + what + `)$`)
}

// files returns, for each name of a test, the files that have a test of this name.
var files = sync.OnceValue(func() map[string][]string {
	found := map[string][]string{}
	filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			text, _ := os.ReadFile(path) // checkOf reports a test that cannot be read
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				found[string(m[1])] = append(found[string(m[1])], path)
			}
		}
		return nil
	})
	return found
})

// checkOf returns the test with the given name. Unless it is in checks, only one file may have such a
// test.
func checkOf(name string) (check, error) {
	if c := checks[name]; c.found != nil {
		return c, nil
	}
	in := files()[name]
	if len(in) != 1 {
		return check{}, fmt.Errorf("%s is in %q, not in one file", name, in)
	}
	dir, file := filepath.Split(strings.TrimPrefix(filepath.ToSlash(in[0]), "../../../"))
	return check{strings.TrimSuffix(dir, "/"), nil, at(strings.TrimSuffix(file, ".go"), `.*`)}, nil
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
				t.Fatalf("%s: %v", m.Name, err)
			}
		}
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
