package mmapfilter

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// TestUnusedLog covers W8: a filter can be opened if a killed process has left a log that it never used,
// or the hashes of an unfinished rebuild. Opening removes these files.
func TestUnusedLog(t *testing.T) {
	_, closed := mustBuild(t, nil, numbers(0, 20))
	for name, path := range map[string]string{"killed": deadWriter(t, 10, 10), "closed": closed} {
		must(t, os.WriteFile(path+".stash.new", make([]byte, wal.MinBytes), 0o600))
		if _, err := Recover(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		mustListed(t, filepath.Dir(path), filepath.Base(path))
	}
	f, path := mustCreate(t, &Options{Capacity: 100, KeepHashes: true})
	mustInsert(t, f, 0, 50)
	must(t, errors.Join(f.Close(), copyOver(path+".hashes.new", path+".hashes")))
	opened(t, path, func(f *Filter) { mustInsert(t, f, 50, 60) })
	mustListed(t, filepath.Dir(path), "filter.mmf", "filter.mmf.hashes")
}

// TestLogOfAMovedFilter: if a file was moved to the name of another file whose writer died, no call
// destroys the log of the other file.
func TestLogOfAMovedFilter(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string) error{
		"insert": func(t *testing.T, path string) error {
			f := openQuiet(t, path)
			mustInsert(t, f, 20, 30)
			return f.Close()
		},
		"Build": func(t *testing.T, path string) error {
			f, err := Build(context.Background(), path, nil, numbers(0, 20))
			return errors.Join(err, f.Close())
		},
		"Install": func(t *testing.T, path string) error { return install(path, path+".installed") },
	} {
		t.Run(name, func(t *testing.T) {
			path := deadWriter(t, 10, 10)
			moved := path + ".moved"
			_, other := mustBuild(t, nil, numbers(0, 20))
			must(t, errors.Join(os.Rename(path, moved), os.Rename(other, path), change(t, path)))
			logs, _ := filepath.Glob(path + ".stash*")
			if len(logs) != 1 {
				t.Fatalf("logs %v", logs)
			}
			must(t, os.Rename(logs[0], moved+".stash"))
			f := openQuiet(t, moved)
			defer f.Close()
			for i := range 10 {
				if !f.ContainsHash(spread(i)) {
					t.Errorf("key %d is lost", i)
				}
			}
		})
	}
}

// TestLogIsSetAsideAgain: a log of another file is set aside even if its new name is taken, by a log
// that was set aside before, or by a link to the same log that a process made before it died.
func TestLogIsSetAsideAgain(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 20))
	dead := deadWriter(t, 10, 10)
	for _, left := range []func(from, to string) error{os.Rename, os.Link, func(from, to string) error { return os.Rename(dead+".stash", to) }} {
		logs, _ := filepath.Glob(path + ".stash.*")
		if logs = append(logs, dead+".stash"); len(logs) == 1 {
			must(t, copyOver(dead+".copy", dead+".stash"))
			logs[0] = dead + ".copy"
		}
		must(t, left(logs[0], path+".stash"))
		f := openQuiet(t, path)
		must(t, errors.Join(f.Insert([]byte("key")), f.Close()))
	}
	if logs, _ := filepath.Glob(path + ".stash*"); len(logs) != 2 {
		t.Errorf("logs %v", logs)
	}
}
