package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestBuildOverDeadWriter: a file whose writer died can be opened while Build makes another file in its
// place. A failed Build leaves what readers need.
func TestBuildOverDeadWriter(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000})
	insertAll(t, f, hashes(8, 100))
	dead := abandon(t, f, path)
	stop := errors.New("stop")
	_, err := Build(context.Background(), dead, nil, func(yield func([]byte, error) bool) {
		r, err := OpenReadOnly(dead, nil)
		if err != nil {
			t.Error(err)
		} else {
			mustContain(t, r, hashes(8, 100))
			r.Close()
		}
		yield(nil, stop)
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	mustLeave(t, dead, 1)
	r := mustOpenReadOnly(t, dead, nil)
	mustContain(t, r, hashes(8, 100))
}

// mustBeSuperseded checks that a reader knows that its file is superseded.
func mustBeSuperseded(t *testing.T, f *Filter) {
	t.Helper()
	if mustSayMaybe(t, f); !errors.Is(f.Err(), ErrSuperseded) {
		t.Errorf("a reader of the old file: %v", f.Err())
	}
}

// replacements returns ways to replace a file that keeps its hashes and has no writer.
func replacements(tb testing.TB) map[string]func(path string) error {
	build := func(path string) error {
		f, err := Build(context.Background(), path, nil, numbers(0, 800))
		if err == nil {
			err = f.Close()
		}
		return err
	}
	return map[string]func(path string) error{
		"build": build,
		"install": func(path string) error {
			made := filepath.Join(tb.TempDir(), "made.mmf")
			if err := build(made); err != nil {
				return err
			}
			return install(made, path)
		},
		"merge": func(path string) error {
			return Merge(context.Background(), path, &Options{KeepHashes: true}, path)
		},
	}
}

// TestReadersOfAReplacedFile covers C1 and K4: once another file has replaced the file of a reader, the
// reader does not answer "certainly not" for keys that are inserted into the other file.
func TestReadersOfAReplacedFile(t *testing.T) {
	replacements := replacements(t)
	replacements["repair"] = func(path string) error {
		if err := flipByte(path, layout.OffRegion); err != nil {
			return err
		}
		_, err := Repair(context.Background(), path, nil)
		return err
	}
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			built, path := mustBuild(t, &Options{KeepHashes: true}, numbers(0, 800))
			readers := []*Filter{built}
			for _, opts := range []*OpenOptions{nil, {Checked: true}, {Residency: ResidencyPopulate}} {
				r := mustOpenReadOnly(t, path, opts)
				readers = append(readers, r)
			}
			must(t, replace(path))
			f := mustOpen(t, path, nil)
			insertAll(t, f, hashes(12, 20))
			must(t, f.Sync())
			for _, r := range readers {
				mustContain(t, r, hashes(12, 20))
				mustBeSuperseded(t, r)
			}
			r := mustOpenReadOnly(t, path, nil)
			if found, asked := countFound(r, numbers(10_000, 20_000)); r.Err() != nil || found > asked/10 {
				t.Errorf("a reader of the new file: %d of %d, %v", found, asked, r.Err())
			}
		})
	}
}

// TestCopyOfAReplacedFile covers K4: if a file is opened just before another one replaces it, and mapped
// or copied to the heap afterwards, the reader knows that it is superseded.
func TestCopyOfAReplacedFile(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 10))
	old, head, err := osfile.OpenFile(path)
	must(t, err)
	defer old.Close()
	mustReplace(t, path)
	for _, r := range []Residency{ResidencyDefault, ResidencyHeap} {
		o, err := openHead(old, head, &OpenOptions{Residency: r})
		must(t, err)
		f := newFilter(o)
		defer f.Close()
		mustBeSuperseded(t, f)
	}
}

// mustReplace replaces a file by another one.
func mustReplace(t *testing.T, path string) {
	t.Helper()
	f, err := Build(context.Background(), path, nil, numbers(0, 500))
	must(t, err)
	f.Close()
}

// TestMovedFile covers W9: if the file of a writer was moved, its operations fail. The writer neither
// removes nor replaces the log of the file that now has the name.
func TestMovedFile(t *testing.T) {
	for name, c := range map[string]struct {
		live bool
		do   func(*Filter) error
	}{
		"the first operation": {false, func(f *Filter) error { return f.InsertHash(1) }},
		"a commit":            {true, func(f *Filter) error { return errors.Join(f.InsertHash(1), f.Sync()) }},
		"a checkpoint":        {true, func(f *Filter) error { return f.Checkpoint(context.Background()) }},
		"a larger log": {true, func(f *Filter) error {
			w := f.open.Load().work.Writer
			defer w.LockAll()()
			return w.Protocol().GrowLog(1 << 24)
		}},
		"Close": {true, (*Filter).Close},
	} {
		t.Run(name, func(t *testing.T) {
			a, path := mustCreate(t, &Options{Capacity: 1000})
			if c.live {
				insertAll(t, a, hashes(9, 100))
				must(t, a.Sync())
			}
			must(t, os.Rename(path, path+".moved"))
			b, err := Create(path, &Options{Capacity: 1000, Overwrite: true}) // despite the log of a
			must(t, err)
			defer b.Close()
			insertAll(t, b, hashes(10, 100))
			if err := c.do(a); !errors.Is(err, ErrReplaced) || name != "Close" && !errors.Is(err, ErrFailed) {
				t.Errorf("with a moved file: %v", err)
			}
			if err := a.InsertHash(1); !errors.Is(err, ErrReplaced) && name != "Close" {
				t.Errorf("an insert after that: %v", err)
			}
			insertAll(t, b, hashes(11, 100))
			r := mustOpen(t, abandon(t, b, path), nil)
			mustContain(t, r, hashes(10, 100))
			mustContain(t, r, hashes(11, 100))
		})
	}
}

// makers are the calls that make a filter at a path. Build and Merge make a filter of the keys 0 to 9,
// and Create makes an empty filter.
var makers = map[string]func(t *testing.T, path string, o Options) error{
	"Create": func(t *testing.T, path string, o Options) error {
		o.Capacity = 100
		f, err := Create(path, &o)
		if err != nil {
			return err
		}
		return f.Close()
	},
	"Build": func(t *testing.T, path string, o Options) error {
		f, err := Build(context.Background(), path, &o, numbers(0, 10))
		if err != nil {
			return err
		}
		return f.Close()
	},
	"Merge": func(t *testing.T, path string, o Options) error {
		in := filepath.Join(t.TempDir(), "in")
		f, err := Build(context.Background(), in, &Options{KeepHashes: true}, numbers(0, 10))
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), Merge(context.Background(), path, &o, in))
	},
}

// TestDestroysNothing: Create, Build and Merge replace a filter and the files that belong to it. They
// replace other files only with Overwrite.
func TestDestroysNothing(t *testing.T) {
	dir := t.TempDir()
	hashed := filepath.Join(dir, "hashed")
	f, err := Build(context.Background(), hashed, &Options{KeepHashes: true}, numbers(0, 20))
	must(t, err)
	f.Close()
	plain := image(t, nil, numbers(0, 20))
	kept, keeps := readFile(t, hashed+".hashes"), readFile(t, hashed)
	dead := deadWriter(t, 10, 10)
	log, logged := readFile(t, dead+".stash"), readFile(t, dead)
	text := []byte("keys of mine\n")
	zeros := make([]byte, 1<<16)
	ends := slices.Concat(make([]byte, 16), text)
	damaged := slices.Concat(text, kept[len(text):])
	lostHead := slices.Concat(make([]byte, layout.SuperblockBytes), keeps[layout.SuperblockBytes:])
	type files = map[string][]byte // by suffix
	for _, c := range []struct {
		name    string
		files   files
		destroy string // suffix of the file that must not be destroyed
		builds  bool   // there is no file at the path, so that Create does not fail at once
		refused bool
	}{
		{"a text", files{"": text}, "", false, true},
		{"a text longer than the head of a filter", files{"": bytes.Repeat(text, 2000)}, "", false, true},
		{"zeros", files{"": zeros}, "", false, true},
		{"a set", files{"": []byte("{\n  \"format\": \"mmapfilter set\",\n")}, "", false, true},
		{"hashes", files{"": kept}, "", false, true},
		{"an empty file", files{"": nil}, "", false, false},
		{"a filter", files{"": plain}, "", false, false},
		{"a filter that is cut short", files{"": plain[:9000]}, "", false, false},
		{"a filter without its first superblock", files{"": lostHead, ".hashes": kept}, "", false, false},
		{"a filter and its hashes", files{"": keeps, ".hashes": kept}, "", false, false},
		{"a filter and its hashes, which are damaged", files{"": keeps, ".hashes": damaged}, "", false, false},
		{"a filter whose hashes are yet to get their name", files{"": keeps, ".hashes.new": kept, ".hashes": text}, "", false, false},
		{"a filter and its log", files{"": logged, ".stash": log}, "", false, false},
		{"a filter and its log, which is damaged", files{"": logged, ".stash": text}, "", false, false},
		{"a filter and a log that was left", files{"": plain, ".stash": log}, "", false, false},
		{"a filter and a log that was begun", files{"": plain, ".stash.new": zeros}, "", false, false},
		{"a log that was begun", files{".stash.new": zeros}, "", true, false},
		{"hashes of a filter that has not got its name", files{".hashes.new": kept}, "", true, false},
		{"nothing", files{}, "", true, false},
		{"empty files", files{".hashes": nil, ".stash": nil}, "", true, false},

		{"hashes of a filter that was moved", files{".hashes": kept}, ".hashes", true, true},
		{"… and an empty file in its place", files{"": nil, ".hashes": kept}, ".hashes", false, true},
		{"… and another filter in its place", files{"": plain, ".hashes": kept}, ".hashes", false, true},
		{"the log of a filter that was moved", files{".stash": log}, ".stash", true, true},
		{"… the next log", files{".stash.new": log}, ".stash.new", true, true},
		{"a text in place of hashes", files{".hashes": text}, ".hashes", true, true},
		{"a text in place of the next hashes", files{".hashes.new": text}, ".hashes.new", true, true},
		{"a text in place of a log", files{".stash": text}, ".stash", true, true},
		{"a text in place of a log, after zeros", files{".stash": ends}, ".stash", true, true},
		{"a text in place of the log of a filter at rest", files{"": plain, ".stash": text}, ".stash", false, true},
		{"a text in place of the hashes of a filter without", files{"": plain, ".hashes": text}, ".hashes", false, true},
	} {
		for how, make := range makers {
			for _, keep := range []bool{false, true} {
				if how == "Create" && !c.builds {
					continue
				}
				name := fmt.Sprintf("%s of a filter (hashes: %t) in place of %s", how, keep, c.name)
				path := filepath.Join(t.TempDir(), "f")
				for suffix, data := range c.files {
					must(t, os.WriteFile(path+suffix, data, 0o600))
				}
				var foreign *ForeignError
				err := make(t, path, Options{KeepHashes: keep})
				if !c.refused {
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				} else if real, _ := filepath.EvalSymlinks(filepath.Dir(path)); !errors.As(err, &foreign) || foreign.Path != filepath.Join(real, "f")+c.destroy {
					t.Errorf("%s: %v", name, err)
				}
				left, _ := filepath.Glob(path + "*")
				for suffix, data := range c.files {
					if c.refused && (!bytes.Equal(readFile(t, path+suffix), data) || len(left) != len(c.files)) {
						t.Errorf("%s: %v are left, and %s has changed", name, left, path+suffix)
					}
				}
				if c.refused {
					err = make(t, path, Options{KeepHashes: keep, Overwrite: true})
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if _, err := Verify(context.Background(), path); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if left, _ := filepath.Glob(path + ".hashes"); (len(left) == 1) != keep && c.files[""] == nil && c.files[".hashes"] != nil {
					t.Errorf("%s: %v", name, left)
				}
			}
		}
	}
}

// TestInsertDestroysNothing: the first operation creates a log, but does not destroy another file with
// the name of the log.
func TestInsertDestroysNothing(t *testing.T) {
	text := []byte("notes of mine\n")
	for _, suffix := range []string{".stash", ".stash.new"} {
		f, path := mustBuild(t, nil, numbers(0, 20))
		must(t, errors.Join(f.Close(), os.WriteFile(path+suffix, text, 0o600)))
		f = mustOpen(t, path, nil)
		var foreign *ForeignError
		if err := f.Insert([]byte("key")); !errors.As(err, &foreign) || !strings.HasSuffix(foreign.Path, suffix) {
			t.Errorf("%s: %v", suffix, err)
		}
		f.Close()
		if !bytes.Equal(readFile(t, path+suffix), text) {
			t.Errorf("%s has changed", suffix)
		}
		must(t, os.Remove(path+suffix))
		f = openQuiet(t, path)
		mustInsert(t, f, 20, 30)
		mustHave(t, f, 0, 30)

		// Close does not destroy such a file either, if it appears later.
		must(t, os.WriteFile(path+".stash.new", text, 0o600))
		if err := f.Close(); err != nil || !bytes.Equal(readFile(t, path+".stash.new"), text) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// TestLateFilesAreNotDestroyed: Build looks for other files again before it publishes its file.
func TestLateFilesAreNotDestroyed(t *testing.T) {
	for _, suffix := range []string{"", ".hashes"} {
		path := filepath.Join(t.TempDir(), "f")
		text := []byte("mine")
		_, err := Build(context.Background(), path, nil, func(yield func([]byte, error) bool) {
			if err := os.WriteFile(path+suffix, text, 0o600); err != nil {
				t.Error(err)
			}
			yield([]byte("key"), nil)
		})
		var foreign *ForeignError
		if left, _ := filepath.Glob(path + "*"); !errors.As(err, &foreign) || len(left) != 1 || !bytes.Equal(readFile(t, path+suffix), text) {
			t.Errorf("%q: %v, %v", suffix, err, left)
		}
	}
}

// TestRebuildSparesHashesBeside: a rebuild of a filter that keeps no hashes does not touch NAME.hashes.
func TestRebuildSparesHashesBeside(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100})
	text := []byte("hashes of another filter")
	must(t, os.WriteFile(path+".hashes", text, 0o600))
	all := func() iter.Seq2[[]byte, error] { return numbers(0, 10) }
	mustInsert(t, f, 0, 10)
	must(t, f.Rebuild(context.Background(), &RebuildOptions{Capacity: 1000, Keys: func() (iter.Seq2[[]byte, error], error) { return all(), nil }}))
	f.Close()
	if !bytes.Equal(readFile(t, path+".hashes"), text) {
		t.Error("NAME.hashes has changed")
	}
}

// TestMinKeys: Build and Merge replace no file if the new filter has fewer than MinKeys keys.
func TestMinKeys(t *testing.T) {
	f, path := mustBuild(t, &Options{KeepHashes: true}, numbers(0, 10))
	f.Close()
	before := readFile(t, path)
	empty, err := Create(path+".empty", &Options{Capacity: 10, KeepHashes: true, Seed: DefaultSeed})
	must(t, err)
	empty.Close()
	twice := func(yield func([]byte, error) bool) {
		for range 2 {
			for key, err := range numbers(0, 9) {
				if !yield(key, err) {
					return
				}
			}
		}
	}
	_, err = Build(context.Background(), path, &Options{MinKeys: 10, Distinct: true}, twice)
	if !errors.Is(err, ErrFewKeys) {
		t.Errorf("Build: %v", err)
	}
	if err := Merge(context.Background(), path, &Options{MinKeys: 1}, path+".empty"); !errors.Is(err, ErrFewKeys) {
		t.Errorf("Merge: %v", err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 4 || !bytes.Equal(readFile(t, path), before) {
		t.Errorf("the files are %v, or the filter has changed", left)
	}
	if f, err = Build(context.Background(), path, &Options{MinKeys: 9, Distinct: true}, twice); err != nil || f.Len() != 9 {
		t.Fatal(err)
	}
	f.Close()
}
