// Command house checks the plan of the house: which package may import which, that no file
// is too long and no comment too wide, and how the files of a package depend on one another. It
// prints a table with a row for each package and exits with status 1 if a rule is broken.
//
//	go run ./tools/house
package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(".", os.Stdout, os.Stderr))
}

func run(root string, stdout, stderr io.Writer) int {
	all, err := load(root)
	if err != nil {
		fmt.Fprintln(stderr, "house:", err)
		return 2
	}
	broken := checkImports(all)
	broken = append(broken, checkLengths(all)...)
	wide, err := checkComments(root)
	if err != nil {
		fmt.Fprintln(stderr, "house:", err)
		return 2
	}
	broken = append(broken, wide...)
	fmt.Fprintln(stdout, "| package | files | lines | exported names | arrows between files | of them in cycles | largest cycle |")
	fmt.Fprintln(stdout, "|---|---|---|---|---|---|---|")
	for _, p := range all {
		c := cyclesOf(p.uses)
		fmt.Fprintf(stdout, "| %s | %d | %d | %d | %d | %d | %d |\n", p.path, len(p.lines), p.total(), p.exported, c.arrows, c.inCycles, c.largest)
		if most := cmp.Or(cycles[p.path], 1); c.largest > most {
			broken = append(broken, fmt.Sprintf("%s: %d files depend on one another in a cycle, and at most %d may: %s", p.path, c.largest, most, strings.Join(c.files, " ")))
		}
	}
	for _, b := range broken {
		fmt.Fprintln(stderr, "house:", b)
	}
	if len(broken) > 0 {
		return 1
	}
	return 0
}

// maxLines is the longest that a file may be unless it is generated: about what one person reads
// in a sitting.
const maxLines = 600

// mayImport lists the packages of this module that a package may import, besides those below its
// own path. A package that is not listed may import anything but tools.
var mayImport = map[string][]string{
	"layout/kernel":     {},
	"layout":            {"layout/kernel"},
	"layout/wal":        {"layout", "layout/kernel"},
	"layout/hashes":     {"layout"},
	"layout/blocked":    {"layout", "layout/kernel"},
	"layout/compact":    {"layout", "layout/kernel"},
	"layout/paper":      {"layout", "layout/kernel"},
	"layout/all":        {"layout/blocked", "layout/compact", "layout/paper"},
	"layout/layouttest": {"layout"},
	"layout/multiset":   {"layout"},
	"recovery":          {"layout", "layout/hashes", "layout/kernel", "layout/wal", "recovery/fault"},
	"recovery/fault":    {},
	"recovery/crashsim": {"layout", "layout/all", "layout/hashes", "layout/multiset", "layout/wal", "recovery"},
	"mmapfilter":        {"layout", "layout/all", "layout/hashes", "layout/kernel", "layout/wal", "recovery"},

	"mmapfilter/guard":              {"mmapfilter", "mmapfilter/internal/guarded"},
	"mmapfilter/internal/guarded":   {"mmapfilter"},
	"mmapfilter/sets":               {"layout", "recovery", "mmapfilter", "mmapfilter/internal/manifest", "mmapfilter/internal/sweep"},
	"mmapfilter/internal/manifest":  {"layout"},
	"mmapfilter/internal/pending":   {"layout", "layout/kernel"},
	"mmapfilter/internal/place":     {"layout", "layout/kernel"},
	"mmapfilter/internal/sweep":     {"layout", "recovery"},
	"mmapfilter/internal/builder":   {"layout", "layout/hashes", "layout/kernel", "recovery", "mmapfilter/internal/place", "mmapfilter/internal/sweep"},
	"mmapfilter/internal/engine":    {"layout", "layout/kernel", "layout/wal", "recovery", "mmapfilter/internal/pending", "mmapfilter/internal/place", "mmapfilter/internal/sweep"},
	"mmapfilter/internal/tabletest": {"layout", "layout/all", "layout/kernel", "layout/multiset", "recovery"},
}

// checkImports reports imports that point up, and imports of tools by packages outside tools.
func checkImports(all []pkg) (broken []string) {
	for _, p := range all {
		allowed, listed := mayImport[p.path]
		for _, i := range p.imports {
			up := listed && !slices.Contains(allowed, i) && !strings.HasPrefix(i, p.path+"/")
			if up || strings.HasPrefix(i, "tools") && !strings.HasPrefix(p.path, "tools") {
				broken = append(broken, fmt.Sprintf("%s imports %s", p.path, i))
			}
		}
	}
	return broken
}

func checkLengths(all []pkg) (broken []string) {
	for _, p := range all {
		for _, file := range slices.Sorted(maps.Keys(p.lines)) {
			if n := p.lines[file]; n > maxLines {
				broken = append(broken, fmt.Sprintf("%s/%s has %d lines, more than %d", p.path, file, n, maxLines))
			}
		}
	}
	return broken
}
