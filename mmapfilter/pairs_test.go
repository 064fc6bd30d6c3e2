package mmapfilter

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	pairsLine = regexp.MustCompile(`^- ([^:]+): (?:(Test\w+)(?:/(\w+))?(?: \[(\S+)\])?|rule ([A-Z][0-9]+): \S.*|(\w*(?:Err\w+|Error))(?:: .*)?)$`)
	// declaration matches the declaration of a function, a type, or an error.
	declaration = regexp.MustCompile(`(?m)^(?:func|type)\s+(\w+)|^(?:\t|var )(Err\w+)\s+=`)
	ruleLine    = regexp.MustCompile(`(?m)^//\t([A-Z][0-9]+)  `)
)

// TestPairsTable: pairs.md has each pair of features once, with a test, rule or error that exists.
func TestPairsTable(t *testing.T) {
	text := string(readFile(t, "pairs.md"))
	var features []string
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(.+?)\*\*`).FindAllStringSubmatch(text, -1) {
		features = append(features, m[1])
	}
	if len(features) < 28 {
		t.Errorf("features %q", features)
	}
	rules, named := rulesOf(t, ".."), declared(t, ".")
	tests := map[string]map[string]bool{"": named}
	seen := make(map[[2]string]bool)
	for _, section := range strings.Split(text, "\n## ")[2:] {
		a, lines, _ := strings.Cut(section, "\n")
		for line := range strings.Lines(strings.TrimSpace(lines)) {
			m := pairsLine.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				t.Errorf("%s: %s", a, line)
				continue
			}
			partners, test, script, dir, rule, err := strings.Split(m[1], ", "), m[2], m[3], m[4], m[5], m[6]
			if tests[dir] == nil {
				tests[dir] = declared(t, filepath.Join("..", dir))
			}
			switch {
			case test != "" && !tests[dir][test]:
				t.Errorf("%s: there is no %s in %q", a, test, dir)
			case script != "":
				readFile(t, filepath.Join("..", dir, "testdata", script+".txt"))
			case rule != "" && !rules[rule]:
				t.Errorf("%s: no essay has rule %s", a, rule)
			case err != "" && !named[err]:
				t.Errorf("%s: there is no error named %s", a, err)
			}
			for _, b := range partners {
				if i, j := slices.Index(features, a), slices.Index(features, b); i < 0 || i >= j || seen[[2]string{a, b}] {
					t.Errorf("%s and %s: not two features in the order of the list, or twice", a, b)
				}
				if test == "TestHistoryPairs" && (pairUses[a] == nil || pairUses[b] == nil) {
					t.Errorf("%s does not use %s and %s", test, a, b)
				}
				seen[[2]string{a, b}] = true
			}
		}
	}
	for i, a := range features {
		for _, b := range features[i+1:] {
			if !seen[[2]string{a, b}] {
				t.Errorf("the pair of %s and %s is missing", a, b)
			}
		}
	}
}

// rulesOf returns the rules of all essays in a directory and below it.
func rulesOf(t *testing.T, dir string) map[string]bool {
	rules := make(map[string]bool)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "doc.go" {
			for _, m := range ruleLine.FindAllStringSubmatch(string(readFile(t, path)), -1) {
				rules[m[1]] = true
			}
		}
		return err
	})
	must(t, err)
	return rules
}

// declared returns the names of the functions, types and errors that the Go files of a directory
// declare.
func declared(t *testing.T, dir string) map[string]bool {
	names := make(map[string]bool)
	paths, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, path := range paths {
		for _, m := range declaration.FindAllStringSubmatch(string(readFile(t, path)), -1) {
			names[m[1]+m[2]] = true
		}
	}
	return names
}
