package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checkEssays reports packages, in all modules below root, that have no essay: a comment that
// touches the package line and begins with the name of the package. A blank line between the two
// would hide it from go doc.
func checkEssays(root string) (broken []string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	begins, found := map[string]string{}, sets{} // by folder
	err = eachFile(root, func(name, text string) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		folder := path.Dir(name)
		begins[folder] = "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			last := path.Base(filepath.ToSlash(filepath.Join(root, folder)))
			begins[folder] = "Command " + strings.TrimPrefix(last, "_") + " "
		}
		if strings.HasPrefix(f.Doc.Text(), begins[folder]) {
			found[folder] = true
		}
		return nil
	})
	for _, folder := range slices.Sorted(maps.Keys(begins)) {
		if !found[folder] {
			broken = append(broken, fmt.Sprintf("%s has no essay that begins with %q", folder, begins[folder]))
		}
	}
	return broken, err
}
