package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLinks checks that the links of pages, except links to other sites, lead to a file, and to a
// heading if they name one.
func TestLinks(t *testing.T) {
	for _, page := range strings.Fields(git(t, "../..", "ls-files", "*.md")) {
		if broken := brokenLinks(t, "../..", page); len(broken) > 0 {
			t.Errorf("%s has links that lead nowhere: %q", page, broken)
		}
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"in/page.md": "# A page\n\n[a](../other.md), [b](#a-page) [c](../other.md#two-words-here)\n[d](https://example.org/#e) [f](gone.md) [g](#gone) [h](../other.md#a-page) [i](#a-page) [k](..)\n",
		"other.md":   "## Two words, `here`!\n",
	})
	if broken := brokenLinks(t, dir, "in/page.md"); !slices.Equal(broken, []string{"gone.md", "#gone", "../other.md#a-page"}) {
		t.Errorf("the links that lead nowhere are said to be %q", broken)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// brokenLinks returns the links of a page that lead nowhere.
func brokenLinks(t *testing.T, dir, page string) (broken []string) {
	text, err := os.ReadFile(filepath.Join(dir, page))
	must(t, err)
	for _, l := range link.FindAllStringSubmatch(string(text), -1) {
		to, name, named := strings.Cut(l[1], "#")
		if strings.Contains(l[1], "://") {
			continue
		}
		path := filepath.Join(dir, page)
		if to != "" {
			path = filepath.Join(filepath.Dir(path), to)
		}
		_, err := os.Stat(path)
		if err == nil && named {
			text, err := os.ReadFile(path)
			must(t, err)
			named = !slices.Contains(slugs(string(text)), name)
		}
		if err != nil || named {
			broken = append(broken, l[1])
		}
	}
	return broken
}

// slugs returns the names by which links refer to the headings of a page.
func slugs(page string) (slugs []string) {
	for _, h := range heading.FindAllStringSubmatch(page, -1) {
		slugs = append(slugs, strings.ReplaceAll(strings.ToLower(notSlug.ReplaceAllString(h[1], "")), " ", "-"))
	}
	return slugs
}
