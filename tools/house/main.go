package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(compiles(".", os.Args[1:], os.Stderr))
	}
	os.Exit(run(".", essay, os.Stdout, os.Stderr))
}

// compiles checks that the module in root compiles for some systems, and returns the exit status.
func compiles(root string, systems []string, stderr io.Writer) (status int) {
	for _, on := range systems {
		broken, err := checkSystem(root, system(on))
		if err != nil {
			fmt.Fprintf(stderr, "house: %s: %v\n", on, err)
			return 2
		}
		for _, b := range broken {
			fmt.Fprintln(stderr, "house:", b)
			status = 1
		}
	}
	return status
}

// run checks the module in root against the plan in an essay, and returns the exit status.
func run(root, essay string, stdout, stderr io.Writer) int {
	all, err := load(root)
	if err != nil {
		fmt.Fprintln(stderr, "house:", err)
		return 2
	}
	broken := checkImports(all, readPlan(essay))
	for _, check := range []func(root string) ([]string, error){checkLengths, checkComments, checkEssays, checkRules, checkReading} {
		more, err := check(root)
		if err != nil {
			fmt.Fprintln(stderr, "house:", err)
			return 2
		}
		broken = append(broken, more...)
	}
	fmt.Fprintln(stdout, "| package | files | lines | exported names | arrows between files | of them in cycles | files in cycles |")
	fmt.Fprintln(stdout, "|---|---|---|---|---|---|---|")
	for _, p := range all {
		c := cyclesOf(p.uses)
		fmt.Fprintf(stdout, "| %s | %d | %d | %d | %d | %d | %d |\n", p.path, len(p.lines), p.total(), p.exported, c.arrows, c.inCycles, len(c.files))
		if n := len(c.files); n > 0 {
			broken = append(broken, fmt.Sprintf("%s: %d files depend on one another in cycles: %s", p.path, n, strings.Join(c.files, " ")))
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

// checkLengths reports files that are longer, in all modules below root.
func checkLengths(root string) (broken []string, err error) {
	err = eachFile(root, func(name, text string) error {
		if n := strings.Count(text, "\n"); n > maxLines {
			broken = append(broken, fmt.Sprintf("%s has %d lines, more than %d", name, n, maxLines))
		}
		return nil
	})
	return broken, err
}
