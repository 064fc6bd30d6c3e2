package main

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// essay is the text of doc.go, which has the plan.
//
//go:embed doc.go
var essay string

// A part is a package of the plan.
type part struct {
	path    string
	imports []string
}

// readPlan finds the parts in an essay: in its section on them, each line after a tab is a part
// and its subject, or an arrow and what the part before imports.
func readPlan(essay string) (plan []part) {
	_, section, _ := strings.Cut(essay, "\n// # The parts\n")
	section, _, _ = strings.Cut(section, "\n// # ")
	for line := range strings.Lines(section) {
		line, ok := strings.CutPrefix(line, "//\t")
		if !ok {
			continue
		}
		fields := strings.Fields(line)
		if fields[0] == "→" && len(plan) > 0 {
			plan[len(plan)-1].imports = fields[1:]
		} else {
			plan = append(plan, part{path: fields[0]})
		}
	}
	return plan
}

// checkImports compares the imports of packages with the plan.
func checkImports(all []pkg, plan []part) (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	place := map[string]int{} // in the plan, from 1 on
	for i, p := range plan {
		place[p.path] = i + 1
	}
	for _, p := range all {
		at := place[p.path]
		if at == 0 {
			report("%s is not in the plan (tools/house/doc.go)", p.path)
		}
		tool := isTool(p.path)
		for _, i := range p.imports {
			switch {
			case isTool(i) && !tool:
				report("%s imports %s", p.path, i)
			case !tool && at > 0 && !slices.Contains(plan[at-1].imports, i):
				report("%s imports %s, and the plan has no such arrow", p.path, i)
			}
		}
		if at == 0 {
			continue
		}
		for _, i := range plan[at-1].imports {
			if !slices.Contains(p.imports, i) {
				report("%s does not import %s: the plan has an arrow too many", p.path, i)
			}
			if n := place[i]; n == 0 || n > at {
				report("the plan has %s before %s, which it imports", p.path, i)
			}
		}
	}
	for _, p := range plan {
		if !slices.ContainsFunc(all, func(a pkg) bool { return a.path == p.path }) {
			report("there is no package %s, which the plan has", p.path)
		}
	}
	return broken
}

func isTool(path string) bool { return path == "tools" || strings.HasPrefix(path, "tools/") }
