package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// install installs a file and closes it.
func install(from, to string) error {
	f, err := Install(context.Background(), from, to, nil)
	if err != nil {
		return err
	}
	return f.Close()
}

// mustListed checks which files a directory has.
func mustListed(tb testing.TB, dir string, want ...string) {
	tb.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	must(tb, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if strings.Join(names, " ") != strings.Join(want, " ") {
		tb.Errorf("the directory has %q, not %q", names, want)
	}
}

// TestInstall: Install moves a file and its hashes to a name, where there may be another file. Either
// file may keep hashes or not. The file does not change, but gets the permissions of the old one.
func TestInstall(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		for _, before := range []string{"nothing", "a file", "a file with hashes", "a file through a link"} {
			t.Run(before, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "live")
				must(t, os.Mkdir(dir, 0o755))
				live, path := filepath.Join(dir, "live.mmf"), filepath.Join(dir, "live.mmf")
				mode := fs.FileMode(0o640)
				if before != "nothing" {
					f, err := Build(context.Background(), live, &Options{KeepHashes: before == "a file with hashes"}, numbers(5000, 6000))
					must(t, err)
					defer f.Close()
					mode = 0o604
					if osfile.Replaces {
						defer func() { mustBeSuperseded(t, f) }()
					} else {
						f.Close()
					}
				}
				f, from := mustBuild(t, &Options{KeepHashes: keeps}, numbers(0, 1000))
				f.Close()
				if err := errors.Join(os.Chmod(from, 0o640), os.WriteFile(from+".stash", nil, 0o600)); err != nil { // a killed writer may leave such a log
					t.Fatal(err)
				}
				if before != "nothing" {
					must(t, os.Chmod(live, mode))
				}
				if before == "a file through a link" {
					path = filepath.Join(t.TempDir(), "link.mmf")
					symlink(t, live, path)
				}
				data := readFile(t, from)
				var done, total int64
				f, err := Install(context.Background(), from, path, func(d, n int64) { done, total = d, n })
				must(t, err)
				mustHave(t, f, 0, 1000)
				if f.Len() != 1000 || f.Stats().KeepsHashes != keeps || f.Stats().GrowthErr != "" || f.Stats().Warning != "" || total == 0 || done != total {
					t.Errorf("%+v, %d bytes of %d", f.Stats(), done, total)
				}
				f.Close()
				if !bytes.Equal(data, readFile(t, live)) {
					t.Error("the file has changed")
				}
				want := []string{"live.mmf"}
				if keeps {
					want = append(want, "live.mmf.hashes")
				}
				mustListed(t, dir, want...)
				mustListed(t, filepath.Dir(from))
				if info, err := os.Stat(live); err != nil || info.Mode() != mode && runtime.GOOS != "windows" {
					t.Errorf("%v, %v", info.Mode(), err)
				}
				w := mustOpen(t, path, nil)
				if err := w.Rebuild(context.Background(), nil); (err == nil) != keeps {
					t.Errorf("Rebuild: %v", err)
				}
			})
		}
	}
}

// TestInstallRefuses: Install refuses a file that must not be used or replaced. The error says why, and
// nothing changes.
func TestInstallRefuses(t *testing.T) {
	type installCase struct {
		prepare func(t *testing.T, from, to string)
		want    error
		about   string // the file that the error names
	}
	good := image(t, &Options{FalsePositiveRate: 0.1}, numbers(0, 1000))
	cases := map[string]installCase{
		"none":        {func(t *testing.T, from, _ string) { os.Remove(from) }, fs.ErrNotExist, "new.mmf"},
		"with writer": {func(t *testing.T, from, _ string) { mustOpen(t, from, nil) }, ErrLocked, "new.mmf"},
		"dead": {func(t *testing.T, from, _ string) {
			w, live := mustCreate(t, &Options{Capacity: 1000})
			mustInsert(t, w, 0, 100)
			dead := abandon(t, w, live)
			must(t, errors.Join(os.Rename(dead, from), os.Rename(dead+".stash", from+".stash")))
		}, ErrNeedsRecovery, "new.mmf"},
		"a link": {func(t *testing.T, from, _ string) {
			must(t, os.Rename(from, from+"x"))
			symlink(t, from+"x", from)
		}, nil, "new.mmf"},
		"itself": {func(t *testing.T, from, to string) {
			must(t, os.Remove(to))
			symlink(t, from, to)
		}, nil, "live.mmf"},
		"with a text in place of its log": {func(t *testing.T, from, _ string) { publish(t, from+".stash", []byte("notes")) }, nil, "new.mmf.stash"},
		"over a writer":                   {func(t *testing.T, _, to string) { mustOpen(t, to, nil) }, ErrLocked, "live.mmf"},
		"over no filter": {func(t *testing.T, _, to string) {
			publish(t, to, []byte(strings.Repeat("no filter\n", 10_000)))
		}, nil, "live.mmf, which is not a filter"},
		"over a directory": {func(t *testing.T, _, to string) {
			must(t, errors.Join(os.Remove(to), os.Mkdir(to, 0o755)))
		}, nil, "live.mmf"},
		"to nowhere": {func(t *testing.T, _, to string) {
			must(t, os.Remove(to))
			symlink(t, filepath.Join(t.TempDir(), "no", "where"), to)
		}, fs.ErrNotExist, "live.mmf"},
	}
	for name, bad := range badFiles(t, good) {
		if bad.verify != nil {
			cases[name] = installCase{func(t *testing.T, from, _ string) { publish(t, from, bad.data) }, bad.verify, "new.mmf"}
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "new.mmf"), filepath.Join(dir, "live.mmf")
			publish(t, from, good)
			publish(t, to, image(t, nil, numbers(5000, 6000)))
			r := mustOpenReadOnly(t, to, replaceable())
			c.prepare(t, from, to)
			listed := func() (files []string) {
				list, _ := filepath.Glob(filepath.Join(dir, "*"))
				for _, name := range list {
					data, _ := os.ReadFile(name)
					files = append(files, name, string(data))
				}
				return files
			}
			before := listed()
			f, err := Install(context.Background(), from, to, nil)
			if f != nil || err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.about) {
				t.Fatalf("%v", err)
			}
			if c.about == "new.mmf" && !strings.Contains(err.Error(), "read "+from+": ") && !errors.As(err, new(*fs.PathError)) {
				t.Errorf("the error does not say which file: %v", err)
			}
			if held := new(LockedError); c.want == ErrLocked && (!errors.As(err, &held) || held.PID != os.Getpid()) {
				t.Errorf("the error does not say which process has the lock: %v", err)
			}
			if after := listed(); strings.Join(before, "") != strings.Join(after, "") {
				t.Errorf("files have changed")
			}
			if r.Err() != nil {
				t.Errorf("a reader of the file that stays: %v", r.Err())
			}
		})
	}
}

// TestInstallMeanwhile: Install changes nothing if it is cancelled, or if another file, which it has not
// verified, meanwhile replaces the new one.
func TestInstallMeanwhile(t *testing.T) {
	stop := errors.New("stop")
	for _, want := range []error{stop, ErrBusy} {
		if want == ErrBusy && !osfile.Replaces {
			continue // nobody can replace the file while Install has it open
		}
		_, from := mustBuild(t, nil, numbers(0, 1000))
		_, to := mustBuild(t, nil, numbers(5000, 6000))
		ctx, cancel := context.WithCancelCause(context.Background())
		var once sync.Once
		if want == stop {
			cancel(stop)
		}
		_, err := Install(ctx, from, to, func(done, total int64) {
			once.Do(func() { publish(t, from, slices.Clone(readFile(t, from))) })
		})
		if !errors.Is(err, want) {
			t.Errorf("%v, not %v", err, want)
		}
		cancel(nil)
		mustHave(t, mustOpenReadOnly(t, to, replaceable()), 5000, 6000)
		must(t, install(from, to))
	}
}

// TestInstallWithoutHashes: Install installs a file that has lost its kept hashes without them, and
// removes the hashes of the old file.
func TestInstallWithoutHashes(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"missing": os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, make([]byte, layout.OffRegion), 0o644) },
	} {
		f, from := mustBuild(t, &Options{KeepHashes: true}, numbers(0, 1000))
		f.Close()
		f, to := mustBuild(t, &Options{KeepHashes: true}, numbers(5000, 6000))
		f.Close()
		must(t, spoil(from+".hashes"))
		f, err := Install(context.Background(), from, to, nil)
		must(t, err)
		if f.Stats().GrowthErr == "" {
			t.Errorf("%s hashes: %+v", name, f.Stats())
		}
		f.Close()
		mustListed(t, filepath.Dir(to), filepath.Base(to))
	}
}
