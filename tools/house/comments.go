package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxColumns is how wide a line of prose in a comment may be, with tabs of four columns: a wider
// one is broken by windows that are side by side.
const maxColumns = 105

// checkComments reports comments that are too wide, in all modules below root. Tables and
// pictures, which begin with a tab, and directives may be wider: they cannot be broken.
func checkComments(root string) (broken []string, err error) {
	err = eachFile(root, func(name, text string) error {
		number := 0
		for line := range strings.Lines(text) {
			number++
			comment := strings.TrimLeft(line, "\t")
			columns := 4*(len(line)-len(comment)) + utf8.RuneCountInString(strings.TrimRight(comment, "\r\n"))
			if strings.HasPrefix(comment, "// ") && columns > maxColumns {
				broken = append(broken, fmt.Sprintf("%s:%d: a comment of %d columns, more than %d", name, number, columns, maxColumns))
			}
		}
		return nil
	})
	return broken, err
}

// generated is the line of a file that a program has written.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// eachFile calls do with the name, relative to root and with slashes, and the text of each Go file
// in all modules below root, but for those that a program has written.
func eachFile(root string, do func(name, text string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || generated.Match(text) {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return do(filepath.ToSlash(name), string(text))
	})
}
