package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// mark is the first comment of a go.mod whose module has no versions.
const mark = "// This module is run in a clone only:"

// newest is the heading of a version in CHANGELOG.md, with its date or "(not released)".
var newest = regexp.MustCompile(`(?m)^## (v\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d|not released)\)$`)

// A tree is a clone of the repository, with uncommitted changes.
type tree struct {
	root     string
	version  string // of the newest section of CHANGELOG.md, which is the only place that states it
	date     string // of this section
	section  string // its text
	modules  []*mod // with versions, each after the modules that it requires
	unlisted []*mod // modules without a version
}

// A mod is a module of the tree.
type mod struct {
	dir   string   // below the root, with slashes; "" for the root
	files []string // files in git, below the root, without the files of modules in its folders
	*modfile.File
}

func (m *mod) path() string { return m.Module.Mod.Path }

// tag is the name by which Go finds a version of the module in the repository.
func (m *mod) tag(version string) string {
	if m.dir == "" {
		return version
	}
	return m.dir + "/" + version
}

// readTree reads the changelog and the go.mod files.
func readTree(root string) *tree {
	t := &tree{root: root}
	changes := must(os.ReadFile(filepath.Join(root, "CHANGELOG.md")))
	at := newest.FindSubmatchIndex(changes)
	if at == nil {
		refuse("CHANGELOG.md has no heading such as \"## v0.1.0 (not released)\"")
	}
	t.version, t.date = string(changes[at[2]:at[3]]), string(changes[at[4]:at[5]])
	t.section, _, _ = strings.Cut(string(changes[at[1]:]), "\n## ")
	listed := git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	files := slices.DeleteFunc(strings.Split(strings.TrimSuffix(listed, "\x00"), "\x00"), func(name string) bool {
		_, err := os.Lstat(filepath.Join(root, name))
		return err != nil // the file was removed, but this is not committed
	})
	for _, name := range files {
		if name != "go.mod" && !strings.HasSuffix(name, "/go.mod") {
			continue
		}
		text := must(os.ReadFile(filepath.Join(root, name)))
		m := &mod{dir: strings.TrimSuffix(strings.TrimSuffix(name, "go.mod"), "/")}
		m.File = must(modfile.Parse(name, text, nil))
		m.files = slices.Clone(files)
		if strings.HasPrefix(string(text), mark) {
			t.unlisted = append(t.unlisted, m)
		} else {
			t.modules = append(t.modules, m)
		}
	}
	for _, m := range t.modules {
		m.files = slices.DeleteFunc(m.files, func(name string) bool { return t.owner(name) != m })
	}
	slices.SortStableFunc(t.modules, func(a, b *mod) int { return len(t.own(a)) - len(t.own(b)) })
	return t
}

// owner returns the module that a file is in.
func (t *tree) owner(name string) (owner *mod) {
	for _, m := range slices.Concat(t.modules, t.unlisted) {
		if (m.dir == "" || strings.HasPrefix(name, m.dir+"/")) && (owner == nil || len(m.dir) > len(owner.dir)) {
			owner = m
		}
	}
	return owner
}

// own returns those modules of the tree that a module requires.
func (t *tree) own(m *mod) (own []module.Version) {
	for _, r := range m.Require {
		if slices.ContainsFunc(slices.Concat(t.modules, t.unlisted), func(o *mod) bool { return o.path() == r.Mod.Path }) {
			own = append(own, r.Mod)
		}
	}
	return own
}

// problems returns the reasons why the tree cannot be released with its go.mod files.
func (t *tree) problems() (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	all := slices.Concat(t.modules, t.unlisted)
	for _, m := range all {
		name := m.Syntax.Name
		published := slices.Contains(t.modules, m)
		own := t.own(m)
		for _, r := range own {
			if r.Version != t.version {
				report("%s requires %s, but CHANGELOG.md says %s", name, r, t.version)
			}
			if published && !slices.ContainsFunc(t.modules, func(o *mod) bool { return o.path() == r.Path }) {
				report("%s requires %s, which has no versions", name, r.Path)
			}
			clones := all[slices.IndexFunc(all, func(o *mod) bool { return o.path() == r.Path })]
			if !slices.ContainsFunc(m.Replace, func(x *modfile.Replace) bool {
				return x.Old == module.Version{Path: r.Path} && path.Join(m.dir, x.New.Path) == path.Clean(clones.dir)
			}) {
				report("%s does not replace %s with the module in the clone", name, r.Path)
			}
		}
		switch {
		case m.dir == "" && len(m.Replace) > 0:
			report("%s has a replace: go install would refuse the command", name)
		case published && len(m.Replace) > len(own):
			report("%s replaces a module of others, which Go ignores for importers", name)
		}
	}
	return problems
}

// git returns the output of a command of git.
func git(dir string, args ...string) string { return run(dir, nil, "git", args...) }

// run returns the output of a command. The variables in env are added to the environment of this
// process.
func run(dir string, env []string, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	var errs strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), &errs
	out, err := cmd.Output()
	if err != nil {
		refuse("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}
