package readers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestPairs pairs the readers with each feature that writes: see mmapfilter/pairs.md. One reader in C
// has the file open before the feature is used; another one, and one in Python, open it afterwards. All
// must find the present keys. The two that open it afterwards must answer "certainly not" for absent
// keys.
func TestPairs(t *testing.T) {
	interpreter, library := python(t)
	each(t, func(t *testing.T, v variant) {
		dir := t.TempDir()
		var paths []string
		for name, use := range pairUses {
			path := filepath.Join(dir, name+".mmf")
			f := create(t, path, mmapfilter.Options{KeepHashes: true, AutoGrow: name == "AutoGrow"})
			before := openSession(t, v, path)
			if err := errors.Join(use(path, f), f.Close()); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			before.ask("s")
			after := openSession(t, v, path)
			after.want(name, "s", served)
			for i := 0; i < 100; i += 9 {
				before.want(name+", opened before", fmt.Sprintf("kkey %d", i), maybe)
				after.want(name, fmt.Sprintf("kkey %d", i), maybe)
				after.want(name, fmt.Sprintf("kabsent %d", i), certainlyNot)
			}
			before.want(name+", opened before", "klate", maybe)
			after.want(name, "klate", maybe)
			paths = append(paths, path)
		}
		const script = `
import sys, mmapfilter
mmapfilter.load(sys.argv[1])
for path in sys.argv[2:]:
    with mmapfilter.open(path) as f:
        there, absent = (f.contains_many([b"%s %d" % (word, i) for i in range(100)]) for word in (b"key", b"absent"))
        print(f.status, all(there) and b"late" in f, any(absent))
`
		out := output(t, strings.NewReader(""), interpreter, append([]string{"-B", "-c", "import sys; sys.path.insert(0, 'python')" + script, library}, paths...)...)
		for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
			if want := served + " True False"; line != want {
				t.Errorf("Python, %s: %s, not %s", filepath.Base(paths[i]), line, want)
			}
		}
	})
}

// install installs the file at from in the place of the file at to.
func install(from, to string) error {
	f, err := mmapfilter.Install(context.Background(), from, to, nil)
	if err != nil {
		return err
	}
	return f.Close()
}

// pairUses has uses of features. Each is given a filter with 100 keys, and adds the key "late".
var pairUses = map[string]func(path string, f *mmapfilter.Filter) error{
	"KeepHashes": func(_ string, f *mmapfilter.Filter) error { return f.Insert([]byte("late")) },
	"AutoGrow": func(_ string, f *mmapfilter.Filter) error {
		for i := range 12_000 {
			if err := f.Insert([]byte(fmt.Sprint("more ", i))); err != nil {
				return err
			}
		}
		return f.Insert([]byte("late"))
	},
	"InsertUnique": func(_ string, f *mmapfilter.Filter) error { _, err := f.InsertUnique([]byte("late")); return err },
	"Delete": func(_ string, f *mmapfilter.Filter) error {
		err := errors.Join(f.Insert([]byte("late")), f.Insert([]byte("key 5")))
		_, err2 := f.Delete([]byte("key 5"))
		return errors.Join(err, err2)
	},
	"ExpireBefore": func(_ string, f *mmapfilter.Filter) error {
		n, err := f.ExpireBefore(context.Background(), time.Now().Add(time.Hour))
		for i := range 100 {
			err = errors.Join(err, f.Insert([]byte(fmt.Sprint("key ", i))))
		}
		if n != 100 {
			err = errors.Join(err, fmt.Errorf("%d expired", n))
		}
		return errors.Join(err, f.Insert([]byte("late")))
	},
	"Merge": func(path string, f *mmapfilter.Filter) error {
		return errors.Join(f.Insert([]byte("late")), f.Close(), mmapfilter.Merge(context.Background(), path, nil, path))
	},
	"Distinct": func(path string, f *mmapfilter.Filter) error {
		return errors.Join(f.Insert([]byte("late")), f.Insert([]byte("late")), f.Close(),
			mmapfilter.Merge(context.Background(), path, &mmapfilter.Options{Distinct: true}, path))
	},
	"Rebuild": func(_ string, f *mmapfilter.Filter) error {
		err := f.Rebuild(context.Background(), &mmapfilter.RebuildOptions{Layout: layout.Packed})
		return errors.Join(err, f.Insert([]byte("late")))
	},
	"Keys": func(_ string, f *mmapfilter.Filter) error {
		err := f.Rebuild(context.Background(), &mmapfilter.RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) {
			return func(yield func([]byte, error) bool) {
				for i := 0; i < 100 && yield(fmt.Append(nil, "key ", i), nil); i++ {
				}
			}, nil
		}})
		return errors.Join(err, f.Insert([]byte("late")))
	},
	"Repair": func(path string, f *mmapfilter.Filter) error {
		err := errors.Join(f.Insert([]byte("late")), f.Seal(context.Background()), f.Close())
		data, err2 := os.ReadFile(path)
		if err = errors.Join(err, err2); err != nil {
			return err
		}
		data[33_000] ^= 255
		err = os.WriteFile(path, data, 0o666)
		repaired, err2 := mmapfilter.Repair(context.Background(), path, nil)
		if !repaired {
			err = errors.Join(err, errors.New("Repair has found no damage"))
		}
		return errors.Join(err, err2)
	},
	"DiscardLog": func(path string, f *mmapfilter.Filter) error {
		err := errors.Join(f.Insert([]byte("late")), f.Checkpoint(context.Background()))
		left, err2 := os.ReadFile(path) // what a kill would leave
		err = errors.Join(err, err2, f.Close(), os.WriteFile(path, left, 0o666))
		found, err2 := mmapfilter.DiscardLog(path)
		if !found.Discarded {
			err = errors.Join(err, errors.New("DiscardLog has discarded nothing"))
		}
		return errors.Join(err, err2)
	},
	"Snapshot": func(path string, f *mmapfilter.Filter) error {
		err := f.Insert([]byte("late"))
		_, err2 := f.Snapshot(context.Background(), path+".copy")
		return errors.Join(err, err2, f.Close(), install(path+".copy", path))
	},
	"Changes": func(path string, f *mmapfilter.Filter) error { // a replica that has applied them replaces the filter
		at, err := f.Snapshot(context.Background(), path+".copy")
		var set bytes.Buffer
		err2 := f.Insert([]byte("late"))
		_, err3 := f.Changes(context.Background(), &set, at)
		if err = errors.Join(err, err2, err3, f.Close()); err != nil {
			return err
		}
		r, err := mmapfilter.Open(path+".copy", nil)
		if err != nil {
			return err
		}
		_, err = r.Apply(context.Background(), &set)
		return errors.Join(err, r.Close(), install(path+".copy", path))
	},
	"Seal": func(_ string, f *mmapfilter.Filter) error {
		return errors.Join(f.Insert([]byte("late")), f.Seal(context.Background()))
	},
	"Sync": func(_ string, f *mmapfilter.Filter) error { return errors.Join(f.Insert([]byte("late")), f.SyncAt(7)) },
	"InsertBatch": func(_ string, f *mmapfilter.Filter) error {
		_, err := f.InsertBatch([][]byte{[]byte("late")})
		return err
	},
	"short runs": func(path string, f *mmapfilter.Filter) error {
		for range 5 {
			err := f.Close()
			g, err2 := mmapfilter.Open(path, nil)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			f = g
			if err := f.Insert([]byte("late")); err != nil {
				return err
			}
		}
		return f.Close()
	},
	"names": func(path string, f *mmapfilter.Filter) error {
		err := errors.Join(f.Insert([]byte("late")), f.Close(), os.Rename(path, path+".target"), os.Rename(path+".hashes", path+".target.hashes"))
		return errors.Join(err, os.Symlink(path+".target", path))
	},
}
