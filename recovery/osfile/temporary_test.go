package osfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// TestPublishedFileIsNobodysTemporaryFile: a process that looks for stale files may open a temporary
// file, and lock it after it was published. This must not keep a writer out of the published file.
func TestPublishedFileIsNobodysTemporaryFile(t *testing.T) {
	needsWriters(t)
	path, image := golden(t, "compact-seed.mmf")
	path += "-new"
	d := mustDraft(t, path, len(image))
	copy(d.Data, image)
	late, err := os.OpenFile(d.file.Name(), os.O_RDWR, 0)
	must(t, err)
	defer late.Close()
	must(t, d.Publish())
	must(t, lockDraft(late))
	mustFiles(t, path)
}

// TestDraftIsClosedToOthers checks that no other user may open a new file before it has the permissions
// of the old one, and that users who may open a filter may open its log.
func TestDraftIsClosedToOthers(t *testing.T) {
	needsWriters(t)
	path, _ := golden(t, "compact-seed.mmf")
	must(t, os.Chmod(path, 0o642))
	defer func(old func(string)) { afterCreate = old }(afterCreate)
	afterCreate = func(name string) {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
	d, err := NewDraft(path, DraftOptions{})
	must(t, err)
	if err := d.Discard(); err != nil {
		t.Error(err)
	}
	log, err := mustFiles(t, path).CreateLog(wal.MinBytes)
	must(t, err)
	log.Close()
	if info, err := os.Stat(path + recovery.NextLog.String()); err != nil || info.Mode().Perm() != 0o642 {
		t.Errorf("the log: %v, %v", info, err)
	}
}

// TestStaleTemporaryFiles checks that a draft removes the temporary files that dead processes left for
// its path, and no other file.
func TestStaleTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	const digits = "0123456789abcdef"
	stays := []string{"a.tmp-", "a.tmp-" + digits[1:], "a.tmp-" + digits + "0", "ab.tmp-" + digits, "a.tmp", "b.tmp-" + digits}
	if runtime.GOOS != "windows" { // there, names are equal if only the case differs
		stays = append(stays, "a.tmp-"+strings.ToUpper(digits))
	}
	for _, name := range append([]string{"a.tmp-" + digits, "a.tmp-ffffffffffffffff"}, stays...) {
		put(t, filepath.Join(dir, name), []byte("left"))
	}
	must(t, os.Mkdir(filepath.Join(dir, "a.tmp-aaaaaaaaaaaaaaaa"), 0o700))
	stays = append(stays, "a.tmp-aaaaaaaaaaaaaaaa")

	// Two files are in use: a draft that is being filled and, if it has a name, its scratch file.
	live, err := NewDraft(path, DraftOptions{})
	must(t, err)
	scratch, err := live.Scratch()
	must(t, err)
	stays = append(stays, filepath.Base(live.file.Name()))
	if runtime.GOOS == "windows" { // there, an open file keeps its name
		stays = append(stays, filepath.Base(scratch.Name()))
	}
	check := func(stays []string) {
		t.Helper()
		want := slices.Sorted(slices.Values(stays))
		if list := names(t, dir); list != strings.Join(want, " ") {
			t.Errorf("the files are %s, not %s", list, want)
		}
	}
	check(stays)
	other, err := NewDraft(path, DraftOptions{New: true})
	must(t, err)
	check(append(stays, filepath.Base(other.file.Name())))
	if err := errors.Join(other.Discard(), scratch.Close()); err != nil {
		t.Error(err)
	}
	stays = slices.DeleteFunc(stays, func(name string) bool { return name == filepath.Base(scratch.Name()) })
	check(stays)
	must(t, live.Allocate(context.Background(), 100))
	other, err = NewDraft(path, DraftOptions{}) // a mapped draft is still locked
	must(t, err)
	check(append(stays, filepath.Base(other.file.Name())))
	if err := errors.Join(live.Publish(), other.Discard()); err != nil {
		t.Error(err)
	}
	stays = slices.DeleteFunc(stays, func(name string) bool { return name == filepath.Base(live.file.Name()) })
	check(append(stays, "a"))
}

// TestTemporaryFileIsTakenAway checks that a draft creates a new temporary file if another process takes
// the first one for that of a dead process, and removes or locks it before the draft locks it.
func TestTemporaryFileIsTakenAway(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nobody can remove an open file here")
	}
	path := filepath.Join(t.TempDir(), "a")
	defer func(old func(string)) { afterCreate = old }(afterCreate)
	var made []string
	var locked []*os.File
	afterCreate = func(name string) {
		switch made = append(made, name); len(made) {
		case 1:
			RemoveStale(path)
		case 2: // the other process is about to remove it
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err == nil {
				err = lockDraft(f)
			}
			must(t, err)
			locked = append(locked, f)
		}
	}
	d, err := NewDraft(path, DraftOptions{})
	must(t, err)
	if len(made) != 3 || d.file.Name() != made[2] || !sameFile(d.file, made[2]) {
		t.Errorf("the draft created %v, and has %s", made, d.file.Name())
	}
	if _, err := os.Stat(made[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the first is still there")
	}
	for _, f := range locked {
		f.Close()
	}
	if err := d.Discard(); err != nil {
		t.Error(err)
	}
}

// TestLongNames checks that a draft works with the longest name that a file system allows.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{strings.Repeat("n", 255), strings.Repeat("ü", 127), "x" + strings.Repeat("ü", 127)} {
		must(t, mustDraft(t, filepath.Join(dir, name), 100).Publish())
		if list := names(t, dir); list != name {
			t.Errorf("the files are %s", list)
		}
		os.Remove(filepath.Join(dir, name))
	}
}

// TestDraftFollowsLinks checks that a symbolic link stays a link, and that Publish creates or replaces
// its target, whatever the paths of the links, and whether or not the target exists.
func TestDraftFollowsLinks(t *testing.T) {
	for _, exists := range []bool{false, true} {
		for _, o := range []DraftOptions{{}, {New: true}} {
			draft := func(path string) (*Draft, error) { return NewDraft(path, o) }
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(dir, "deep", "er"), 0o700))
			target := filepath.Join(dir, "deep", "target")
			links := map[string]string{
				"one":                            "two",
				"two":                            filepath.Join(dir, "folder", "three"),
				"folder":                         "deep",
				filepath.Join("deep", "three"):   filepath.Join("er", "four"),
				filepath.Join("deep/er", "four"): filepath.Join("..", "target"),
				filepath.Join("deep", "loop"):    filepath.Join("er", "loop"),
				filepath.Join("deep/er", "loop"): filepath.Join("..", "loop"),
				filepath.Join("deep", "nowhere"): filepath.Join("missing", "f"),
			}
			// A link is in a directory that is itself reached by a link: ".." leads to the parent of the
			// directory, not to the parent of the link.
			other := t.TempDir()
			if err := errors.Join(os.MkdirAll(filepath.Join(other, "b", "c"), 0o700), os.Symlink(filepath.Join(other, "b", "c"), filepath.Join(dir, "aside")),
				os.Symlink(filepath.Join("..", "target"), filepath.Join(other, "b", "c", "link"))); err != nil {
				t.Skip(err)
			}
			if _, err := os.Readlink(filepath.Join(dir, "aside")); err != nil {
				t.Skip("NOT TESTED: ", err) // Wine reports success, but makes no link
			}
			for _, path := range []string{filepath.Join(dir, "aside", "link"), filepath.Join(dir, "aside") + "/../target"} {
				d, err := NewDraft(path, DraftOptions{})
				must(t, err)
				if want, _ := filepath.EvalSymlinks(filepath.Join(other, "b")); filepath.Dir(d.path) != want || filepath.Base(d.path) != "target" {
					t.Errorf("%s leads to %s", path, d.path)
				}
				d.Discard()
			}
			for link, to := range links {
				if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
					t.Skip(err)
				}
			}
			if exists {
				put(t, target, []byte("old"))
			}
			d, err := draft(filepath.Join(dir, "one"))
			if exists && o.New {
				if !errors.Is(err, fs.ErrExist) {
					t.Errorf("over an existing file: %v", err)
				}
				continue
			}
			must(t, err)
			must(t, d.Allocate(context.Background(), 100))
			must(t, d.Publish())
			if info, err := os.Lstat(target); err != nil || !info.Mode().IsRegular() || info.Size() != 100 {
				t.Errorf("%+v: %v, %v", o, info, err)
			}
			for link, to := range links {
				if now, err := os.Readlink(filepath.Join(dir, link)); now != to || err != nil {
					t.Errorf("%+v: %s leads to %s, %v", o, link, now, err)
				}
			}
			if _, err := draft(filepath.Join(dir, "deep", "loop")); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a loop: %v", err)
			}
			if _, err := draft(filepath.Join(dir, "deep", "nowhere")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("in a missing folder: %v", err)
			}
		}
	}
}

// TestBeginRebuildDestroysNothing: BeginRebuild keeps a file of another kind that has the name.
func TestBeginRebuildDestroysNothing(t *testing.T) {
	needsWriters(t)
	path := filepath.Join(t.TempDir(), "f")
	for left, removed := range map[string]bool{"": true, string(make([]byte, 50_000)): false, "notes": false} {
		put(t, RebuildPath(path), []byte(left))
		err := BeginRebuild(path)
		now, _ := os.ReadFile(RebuildPath(path))
		if removed && (err != nil || len(now) > 0) || !removed && (!errors.Is(err, fs.ErrExist) || string(now) != left) {
			t.Errorf("over a file of %d bytes: %v, now %d bytes", len(left), err, len(now))
		}
	}
}
