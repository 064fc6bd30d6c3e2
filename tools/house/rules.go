package main

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	ruleStated = regexp.MustCompile(`(?m)^//\t([A-Z][0-9]+)  `)
	ruleNamed  = regexp.MustCompile(`\b[A-Z][0-9]+\b`)
)

// checkRules reports rules of essays that have a number which another rule has, or that no test names.
// Package crashsim is a test, too.
func checkRules(root string) (broken []string, err error) {
	var rules []string
	stated, tested := map[string]string{}, sets{}
	err = eachFile(root, func(name, text string) error {
		switch {
		case path.Base(name) == "doc.go":
			for _, m := range ruleStated.FindAllStringSubmatch(text, -1) {
				if other := stated[m[1]]; other != "" {
					broken = append(broken, fmt.Sprintf("%s and %s each have a rule %s", other, name, m[1]))
				} else {
					rules = append(rules, m[1])
				}
				stated[m[1]] = name
			}
		case strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "recovery/crashsim/"):
			for _, rule := range ruleNamed.FindAllString(text, -1) {
				tested[rule] = true
			}
		}
		return nil
	})
	for _, rule := range rules {
		if !tested[rule] {
			broken = append(broken, fmt.Sprintf("no test names rule %s, which %s has", rule, stated[rule]))
		}
	}
	return broken, err
}
