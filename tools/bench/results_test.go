package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func TestPage(t *testing.T) {
	const text = "before\n<!-- results a -->\n    go test ./x\n<!-- end of a -->\nbetween\n<!-- results b-2 -->\n    go run .\n\nmore\n<!-- end of b-2 -->\n"
	blocks, err := blocksOf(text)
	if err != nil || len(blocks) != 2 || blocks[0].name != "a" || blocks[1].command != "go run ." || blocks[1].output != "\nmore\n" {
		t.Fatalf("%+v, %v", blocks, err)
	}
	for want, text := range map[string]string{
		"not the begin": "<!-- results a -->\n    x\n",
		"two blocks":    "<!-- results a -->\n    x\n<!-- end of a -->\n<!-- results a -->\n    y\n<!-- end of a -->\n",
		"has a command": "<!-- results a -->\n<!-- end of a -->\n",
		"begin or end":  "<!-- end of a -->\n",
		"has no end":    "<!-- results a -->\n    x\n<!-- results b -->\n    y\n<!-- end of b -->\n",
		"of a block":    "<!-- results A -->\n    x\n<!-- end of A -->\n",
	} {
		if _, err := blocksOf(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestResults runs the commands of three blocks: one replaces its block, one fails and leaves its block
// as it was, and one runs benchmarks that are written here.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o666))
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
	page := write("page.md", "prose\n<!-- results says -->\n    echo '    another'; echo; echo; echo two\nold\n<!-- end of says -->\n"+
		"<!-- results fails -->\n    echo new; echo why >&2; exit 3\nkept\n<!-- end of fails -->\n"+
		"<!-- results counts -->\n    go test . -run '^$' -bench X\n<!-- end of counts -->\nprose\n")
	r := &results{ctx: t.Context(), notes: io.Discard, root: dir, page: page}
	err := r.run(nil)
	if err == nil || !strings.Contains(err.Error(), "fails: ") || !strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("a command that fails: %v", err)
	}
	text := readFile(t, page)
	for _, want := range []string{
		"prose\n<!-- results says -->\n    echo '    another'; echo; echo; echo two\nanother\n\ntwo\n<!-- end of says -->\n", "exit 3\nkept\n<!-- end of fails -->\n",
		"\n    go test . -run '^$' -bench X\n20", " core", "; commit ",
		"| benchmark | ns/op | %share | things |\n|---|---|---|---|\n| X/n=1 |", "| 0.012 | 3,000 |\n| X/n=2 |", "<!-- end of counts -->\nprose\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if err := r.run([]string{"nothing"}); err == nil || !strings.Contains(err.Error(), `no block "nothing"`) {
		t.Errorf("%v", err)
	}
	if err := r.run([]string{"says"}); err != nil {
		t.Errorf("running one block: %v", err)
	}
}

// cell returns a cell of the first table of a block that has the row and the column. The head of the
// table must begin with head, unless head is empty.
func (b *block) cell(row, column, head string) (string, error) {
	var columns []string
	for i, line := range strings.Split(b.output, "\n") {
		cells := tableCells(line)
		if cells == nil {
			columns = nil
			continue
		}
		if columns == nil {
			columns = cells
			continue
		}
		at := slices.Index(columns, column)
		begins := strings.Split(row, "|")
		if at < 0 || head != "" && columns[0] != head || len(cells) < len(begins) || !slices.Equal(cells[:len(begins)], begins) {
			continue
		}
		if at >= len(cells) || cells[at] == "" {
			return "", fmt.Errorf("line %d of block %s has no cell %q", i+1, b.name, column)
		}
		return cells[at], nil
	}
	return "", fmt.Errorf("block %s has no row %q with a column %q", b.name, row, column)
}

// tableCells returns the cells of a line of a table, without the asterisks of bold text. For any other
// line, it returns nil.
func tableCells(line string) []string {
	inner, ok := strings.CutPrefix(line, "|")
	if !ok {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(strings.TrimRight(inner, " "), "|"), "|")
	for i, c := range cells {
		cells[i] = strings.Trim(strings.TrimSpace(c), "*")
	}
	return cells
}

func TestCells(t *testing.T) {
	b := block{name: "a", output: "| first | ns | empty |\n|---|---|---|\n| **one** | **5** |  |\n\n| second | ns |\n|---|---|\n| one | 1,234,567 |"}
	if got, err := b.cell("one", "ns", ""); got != "5" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := b.cell("one", "ns", "second"); got != "1,234,567" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, c := range [][3]string{{"two", "ns"}, {"one", "µs"}, {"one", "empty"}, {"one", "ns", "third"}} {
		if got, err := b.cell(c[0], c[1], c[2]); err == nil {
			t.Errorf("%q: %q", c, got)
		}
	}
}

// TestResultsPages checks the form of RESULTS.md and PAPER.md: each block has a command that can run and
// its output with machine and date; and there are no figures or machines outside blocks.
func TestResultsPages(t *testing.T) {
	for _, page := range []string{"RESULTS.md", "PAPER.md"} {
		text := readFile(t, page)
		blocks, err := blocksOf(text)
		must(t, err)
		figure := regexp.MustCompile(`.*\d (ns|µs|ms|s|GB/s|MB/s)\b.*|.*\d+ times.*|.*(EPYC|Xeon).*`)
		if found := figure.FindString(blockForm.ReplaceAllString(text, "")); found != "" {
			t.Errorf("%s: prose has figures: %s", page, found)
		}
		for _, b := range blocks {
			if err := runnable(t, b.command); err != nil {
				t.Errorf("%s: %s: %v", page, b.command, err)
			}
			if !regexp.MustCompile(`^20\d\d-\d\d-\d\d, .+ cores?; .+ GiB of memory; .+; go1\.\S+; commit [0-9a-f]{12}( \+ changes)?(; files on \w+)?\n`).MatchString(b.output) {
				t.Errorf("%s: block %s does not say where and when it was run", page, b.name)
			}
			if !strings.Contains(b.output, "\n|---|") {
				t.Errorf("%s: block %s has no table", page, b.name)
			}
		}
	}
}

// runnable returns or reports what is wrong with the command of a block: unknown benchmarks, or a wrong
// command or flag of bench.
func runnable(t *testing.T, command string) error {
	args := shellSplit(command)
	if rest, ok := strings.CutPrefix(command, "go -C tools/bench run . "); ok {
		name, _, _ := strings.Cut(rest, " ")
		create, ok := commands()[name]
		if !ok {
			t.Errorf("bench has no command %q", name)
			return nil
		}
		_, err := (&session{notes: io.Discard}).parse(args[5:], create)
		return err
	}
	if !strings.HasPrefix(command, "go test ./mmapfilter -run ^$ -bench ") && !strings.HasPrefix(command, "go test ./mmapfilter -run '^$' -bench ") {
		t.Errorf("this test does not know how to check the command %q", command)
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

// shellSplit splits a command into words, some of which are in single quotes.
func shellSplit(text string) (words []string) {
	for _, word := range regexp.MustCompile(`'[^']*'|[^ ]+`).FindAllString(text, -1) {
		words = append(words, strings.Trim(word, "'"))
	}
	return words
}

// readmeRows has the rows of README's tables. Each # stands for a figure of a block of RESULTS.md, given
// by its row and column there, and if need be by the head of its table and a divisor.
var readmeRows = []struct {
	text, block string
	cells       [][]string
}{
	{"| bits a key, at a rate of | #, # | #, # | #, # | | | |", "space", [][]string{
		{"mmapfilter, rate 1 %", "bits a key"}, {"mmapfilter, rate 1 %", "rate measured"},
		{"FastFilter/xorfilter, binary fuse 8, xxh3", "bits a key"}, {"FastFilter/xorfilter, binary fuse 8, xxh3", "rate measured"},
		{"bits-and-blooms/bloom v3, for 1 %", "bits a key"}, {"bits-and-blooms/bloom v3, for 1 %", "rate measured"}}},
	{"| a lookup, of # keys | # ns | # times that | # | # | # | # |", "peers", [][]string{
		{"mmapfilter, rate 1 %", "keys it has"}, {"mmapfilter, rate 1 %", "ns absent"}, {"FastFilter/xorfilter, binary fuse 8, xxh3", "absent over ours"},
		{"bits-and-blooms/bloom v3", "absent over ours"}, {"greatroar/blobloom, xxh3", "absent over ours"},
		{"seiflotfy/cuckoofilter, f=8, b=4", "absent over ours"}, {"Pebble's bloom, 10 bits, parts of a million keys", "absent over ours"}}},
	{"| one key of 1 GiB, in a batch of 1,024 | # ns, # times a random read of the same memory; by itself # times |", "lookup", [][]string{
		{"ContainsBatch|1024|absent", "ns"}, {"ContainsBatch|1024|absent", "over the limit"}, {"Contains|1|absent", "over the limit"}}},
	{"| open and first answer, 4 GiB | # µs |", "api", [][]string{{"Open/MiB=4096", "ns/op", "", "1e3"}}},
	{"| build, 100 million keys, both cores | # million keys per second |", "build", [][]string{{"Build, mmapfilter, rate 1 %", "keys a second", "100,000,000 keys", "1e6"}}},
	{"| Pebble: time, bytes read | # µs, # | # µs, # | # µs, # |", "stores", cold("pebble", alone, ownBloom, guarded)},
	{"| bbolt | # µs, # | | # µs, # |", "stores", cold("bbolt", alone, guarded)},
	{"| Badger | # µs, # | # µs, # | # µs, # |", "stores", cold("badger", alone, ownBloom, guarded)},
}

func cold(engine string, filters ...string) (cells [][]string) {
	for _, f := range filters {
		for _, column := range []string{"µs, 50 %", "bytes a read from the disk"} {
			cells = append(cells, []string{f + "|absent", column, engine + ", cold: 20,000 reads"})
		}
	}
	return cells
}

// TestReadmeFigures checks that README has the figures, commands and machine of RESULTS.md.
func TestReadmeFigures(t *testing.T) {
	all, err := blocksOf(readFile(t, "RESULTS.md"))
	must(t, err)
	blocks := map[string]block{}
	for _, b := range all {
		blocks[b.name] = b
	}
	readme, commands := readFile(t, "../../README.md"), ""
	_, readme, _ = strings.Cut(readme, "## How fast\n")
	readme, _, _ = strings.Cut(readme, "All tables, with their machines")
	rows := 0
	for _, row := range readmeRows {
		b, line := blocks[row.block], row.text
		for _, c := range row.cells {
			cell, err := b.cell(c[0], c[1], strings.Join(c[2:min(len(c), 3)], ""))
			must(t, err)
			if len(c) == 4 {
				unit, _ := strconv.ParseFloat(c[3], 64)
				x, err := strconv.ParseFloat(strings.ReplaceAll(cell, ",", ""), 64)
				must(t, err)
				cell = fmt.Sprintf("%.0f", x/unit)
			}
			line = strings.Replace(line, "#", cell, 1)
		}
		rows++
		if !strings.Contains(readme, line+"\n") {
			t.Errorf("README has no row\n%s", line)
		}
		if command := "    " + b.command + "\n"; !strings.HasSuffix(commands, command) {
			commands += command
		}
		run, _, _ := strings.Cut(b.output, "\n")
		date, machine, _ := strings.Cut(run, ", ")
		parts := strings.Split(machine, "; ")
		system, _, _ := strings.Cut(parts[2], "-")
		if said := fmt.Sprintf("Measured on %s, %s, %s, on %s:", parts[0], system, parts[3], date); !strings.Contains(readme, said) {
			t.Errorf("README does not say %q, as block %s does", said, row.block)
		}
	}
	if n := strings.Count(readme, "\n| ") - strings.Count(readme, "\n|---"); n != rows { // each table has a head
		t.Errorf("README has %d rows, of which %d are known", n, rows)
	}
	if !strings.Contains(readme, "\n\n"+commands+"\n") {
		t.Errorf("README does not have the commands\n%s", commands)
	}
}

// TestBenchmarkTable checks that a table has the medians of all runs of a benchmark.
func TestBenchmarkTable(t *testing.T) {
	table, err := benchmarkTable("BenchmarkA/on=disk-2 1 4.25 ns/record\nBenchmarkA/on=disk-2 1 12000 ns/record\nBenchmarkA/on=disk-2 1 3 ns/record\nBenchmarkB 7 2 MB/s\n")
	if want := "| benchmark | ns/record | MB/s |\n|---|---|---|\n| A/on=disk | 4.25 |  |\n| B |  | 2.00 |\n"; err != nil || table != want {
		t.Errorf("%v, %s", err, table)
	}
	if _, err := benchmarkTable("PASS\n"); err == nil {
		t.Error("no error, although no benchmark has run")
	}
}
