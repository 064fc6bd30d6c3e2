package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/tools/internal/measure"
	"github.com/mmapfilter/mmapfilter/tools/internal/shortrun"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPage(t *testing.T) {
	const text = "before\n<!-- results a: go test ./x -->\n\n    go test ./x\n<!-- end of a -->\nbetween\n<!-- results b-2: go run . -->\n<!-- end of b-2 -->\n"
	sections, err := parsePage(text)
	if err != nil || len(sections) != 5 || sections[1].name != "a" || sections[3].command != "go run ." {
		t.Fatalf("%+v, %v", sections, err)
	}
	if got := formatPage(sections); got != text {
		t.Errorf("%q, not %q", got, text)
	}
	for want, text := range map[string]string{
		"no end":        "<!-- results a: x -->\n",
		"two blocks":    "<!-- results a: x -->\n<!-- end of a -->\n<!-- results a: x -->\n<!-- end of a -->\n",
		"begins or end": "<!-- end of a -->\n",
		"no block here": "<!-- results a: x -->\n<!-- results b: x -->\n",
		"or ends":       "<!-- results A: x -->\n",
	} {
		if _, err := parsePage(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestResults runs a command whose output is taken, one that fails and leaves its block, and
// benchmarks of a test written here.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("go.mod", "module example.com/x\n\ngo 1.24\n")
	write("x_test.go", `package x

import "testing"

func BenchmarkX(b *testing.B) {
	for _, name := range []string{"n=1", "n=2"} {
		b.Run(name, func(b *testing.B) { b.ReportMetric(float64(len(name)*1000), "things"); b.ReportMetric(0.01234567, "%share") })
	}
}
`)
	page := write("page.md", "prose\n<!-- results says: echo '    another'; echo; echo two -->\nold\n<!-- end of says -->\n"+
		"<!-- results fails: echo new; echo why >&2; exit 3 -->\nkept\n<!-- end of fails -->\n"+
		"<!-- results counts: go test . -run '^$' -bench X -->\n<!-- end of counts -->\nprose\n")
	r := &results{ctx: t.Context(), notes: io.Discard, root: dir, page: page}
	err := r.run(nil)
	if err == nil || !strings.Contains(err.Error(), "fails: ") || !strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("a command that fails: %v", err)
	}
	text := readFile(t, page)
	for _, want := range []string{
		"prose\n<!-- results says: ", "-->\n\n    echo '    another'; echo; echo two\n\ntwo\n\n<!-- end of says -->\n", "-->\nkept\n<!-- end of fails -->\n",
		"\n    go test . -run '^$' -bench X\n\n20", " core", "; commit ",
		"| `X` | ns/op | %share | things |\n|---|---|---|---|\n| n=1 |", "| 0.01235 | 3,000 |\n| n=2 |", "<!-- end of counts -->\nprose\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if err := r.run([]string{"nothing"}); err == nil || !strings.Contains(err.Error(), `no block "nothing"`) {
		t.Errorf("%v", err)
	}
	if err := r.run([]string{"says"}); err != nil {
		t.Errorf("one block alone: %v", err)
	}
	r.readme = write("README.md", "no section")
	if err := r.run([]string{"says"}); err == nil || !strings.Contains(err.Error(), "it has no lines") {
		t.Errorf("%v", err)
	}
}

func TestCells(t *testing.T) {
	sections, err := parsePage("<!-- results a: x -->\n    x\n\n2026-01-31, P, 2 cores; 8.0 GiB of memory; Linux 6-some-build; go1.24; commit 0123456789ab; files on ext4\n\n" +
		"| first | ns | empty |\n|---|---|---|\n| **one** | **5** |  |\n\n| second | ns |\n|---|---|\n| one | 1,234,567 |\n<!-- end of a -->\n")
	if err != nil {
		t.Fatal(err)
	}
	p := page(sections)
	if got, err := p.cell("a", "one", "ns"); got != "5" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	got, err := p.cell("a", "one", "ns", "second")
	if err != nil {
		t.Fatal(err)
	}
	if got, err = scaled(got, 1e6); got != "1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := p.machine("a"); got != "P, 2 cores, Linux 6, go1.24" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, c := range [][]string{{"b", "one", "ns"}, {"a", "two", "ns"}, {"a", "one", "µs"}, {"a", "one", "empty"}, {"a", "one", "ns", "third"}} {
		if got, err := p.cell(c[0], c[1], c[2], c[3:]...); err == nil {
			t.Errorf("%q: %q", c, got)
		}
	}
}

// TestResultsPage checks the form of RESULTS.md: each block has the output of a command that
// can run, with machine and date; and there are no figures or machines outside blocks.
func TestResultsPage(t *testing.T) {
	sections, err := parsePage(readFile(t, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	figure := regexp.MustCompile(`\d (ns|µs|ms|s|GB/s|MB/s)\b|\d+ times|EPYC|Xeon`)
	for _, s := range sections {
		if s.name == "" {
			for _, line := range s.lines {
				if found := figure.FindString(line); found != "" {
					t.Errorf("prose has %q: %s", found, line)
				}
			}
			continue
		}
		if err := runnable(t, s.command); err != nil {
			t.Errorf("block %s: %s: %v", s.name, s.command, err)
		}
		text := strings.Join(s.lines, "\n")
		if !strings.HasPrefix(text, "\n    "+s.command+"\n\n") || !regexp.MustCompile(`\n20\d\d-\d\d-\d\d, .+ cores?; .+ GiB of memory; .+; go1\.\S+; commit [0-9a-f]{12}( \+ changes)?; files on \w+\n`).MatchString(text) {
			t.Errorf("block %s does not begin with its command, and where and when it was run", s.name)
		}
		if !strings.Contains(text, "\n|---|") {
			t.Errorf("block %s has no table", s.name)
		}
	}
}

// runnable returns what is wrong with the command of a block: its benchmarks, or the flags of
// one of our programs.
func runnable(t *testing.T, command string) error {
	args := shellSplit(command)
	if rest, ok := strings.CutPrefix(command, "go -C tools/bench run . "); ok {
		name, _, _ := strings.Cut(rest, " ")
		create, ok := commands()[name]
		if measure.Has(name) {
			return nil
		}
		if !ok {
			t.Errorf("bench has no command %q", name)
			return nil
		}
		s := &session{flags: flag.NewFlagSet(name, flag.ContinueOnError)}
		s.flags.SetOutput(io.Discard)
		s.commonFlags()
		create().flags(s)
		return shortrun.Parse(s.flags, args[6:], &s.short, nil)
	}
	if !strings.HasPrefix(command, "go test ./mmapfilter -run ^$ -bench ") && !strings.HasPrefix(command, "go test ./mmapfilter -run '^$' -bench ") {
		t.Errorf("nothing is known of the command %q", command)
		return nil
	}
	all := ""
	files, err := filepath.Glob("../../mmapfilter/*_test.go")
	if err != nil {
		return err
	}
	for _, file := range files {
		all += readFile(t, file)
	}
	for name := range strings.SplitSeq(args[6], "|") {
		if !strings.Contains(all, "func Benchmark"+strings.TrimSuffix(name, "$")) {
			t.Errorf("there is no benchmark %q", name)
		}
	}
	return nil
}

// shellSplit splits a command into words, some of them in single quotes.
func shellSplit(text string) (words []string) {
	for _, word := range regexp.MustCompile(`'[^']*'|[^ ]+`).FindAllString(text, -1) {
		words = append(words, strings.Trim(word, "'"))
	}
	return words
}

// TestReadmeFigures checks that the figures in README are those of RESULTS.md.
func TestReadmeFigures(t *testing.T) {
	sections, err := parsePage(readFile(t, "RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := readFile(t, "../../README.md")
	want, err := withFigures(readme, sections)
	if err != nil {
		t.Fatal(err)
	}
	if readme != want {
		t.Error(`README.md has other figures than "go -C tools/bench run . results" takes from RESULTS.md`)
	}
}

// TestBenchmarkTables: a table has the medians of all runs of a benchmark, and a value that is no number
// is an error.
func TestBenchmarkTables(t *testing.T) {
	const lines = "BenchmarkA/on=disk-2 1 %s ns/record\nBenchmarkA/on=disk-2 1 12000 ns/record\nBenchmarkA/on=disk-2 1 3 ns/record\n"
	tables, err := benchmarkTables(strings.NewReader(fmt.Sprintf(lines, "4.25")))
	if err != nil || !strings.Contains(tables, "| on=disk | 4.250 |") {
		t.Errorf("%v, %s", err, tables)
	}
	for _, bad := range []string{"+Inf", "NaN"} {
		if _, err := benchmarkTables(strings.NewReader(fmt.Sprintf(lines, bad))); err == nil {
			t.Errorf("%s is a value", bad)
		}
	}
}
