package guardtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Past covers G7: a program without a guard opens a store that a guard has closed, or whose guard was
// killed, and puts keys, or none. The next guard hides no key, whatever filter it finds, and the guard
// after that needs no new filter.
func Past(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		s := &scene{e, Quiet(deletes), t.TempDir()}
		e.newHistory(t, s)
		for _, of := range []struct{ store, filter string }{
			{"killed", "killed"}, {"killed later", "killed later"}, {"closed", "closed"}, {"closed again", "closed again"},
			// Store or filter is restored from a backup.
			{"killed", "killed later"}, {"closed", "closed again"},
			{"killed later", "killed"}, {"closed again", "closed"},
		} {
			for _, keys := range []int{0, 300} {
				name := fmt.Sprintf("store %s, filter %s, %d keys", of.store, of.filter, keys)
				t.Run(name, func(t *testing.T) {
					Must(t, CopyDir(s.dir(name), s.dir(of.store)))
					Must(t, s.copyFilter(name, of.filter))
					s.past(t, name, keys)
				})
			}
		}
	})
}

// newHistory creates a store, and four copies of it: two as a kill would leave it, and two of the
// closed store, before and after it was open once more.
func (e Engine) newHistory(t *testing.T, s *scene) {
	dir := s.dir("now")
	Must(t, os.Mkdir(dir, 0o700))
	d := e.MustOpen(t, dir, s.guard)
	for _, name := range []string{"killed", "killed later", "closed", "closed again"} {
		for i := range 10 { // in ten transactions
			Set(t, d, 0, 1+i)
		}
		Set(t, d, 0, 250)
		Must(t, d.Guard().Work())
		switch name {
		case "closed":
			Must(t, d.Close())
			Must(t, CopyDir(s.dir(name), dir))
			d = e.MustServe(t, dir, s.guard)
		case "closed again":
			Must(t, d.Close())
			Must(t, CopyDir(s.dir(name), dir))
		default:
			Must(t, d.Copy(s.dir(name)))
		}
	}
}

// past puts keys without a guard, and then opens the store with a guard.
func (s *scene) past(t *testing.T, name string, n int) {
	var keys []string
	for i := range n {
		keys = append(keys, Number(5000+i))
	}
	Must(t, s.Unguarded(s.dir(name), keys))
	read, err := s.Open(s.dir(name), s.guard, true)
	if err == nil { // some engines do not open a store for reading after a kill
		MustHideNone(t, read)
		Must(t, read.Close())
	}
	d := s.MustOpen(t, s.dir(name), s.guard)
	if got := MustHideNone(t, d); got != 250+n {
		t.Errorf("%d keys", got)
	}
	Eventually(t, d, "a filter", Serving)
	MustHideNone(t, d)
	for i := range n {
		MustKnow(t, d, Number(5000+i), true)
	}
	killed := name + ", killed"
	Must(t, d.Copy(s.dir(killed)))
	Must(t, d.Close())
	Must(t, s.MustServe(t, s.dir(killed), s.guard).Close())
	Must(t, s.MustServe(t, s.dir(name), s.guard).Close())
}

// Again covers G7: a guard recognizes its own transactions, so a store that only guards open keeps its
// filter, whether it was closed or killed, and whatever the transactions did.
func Again(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		base := t.TempDir()
		dir := filepath.Join(base, "0")
		Must(t, os.Mkdir(dir, 0o700))
		Must(t, e.MustOpen(t, dir, Quiet(deletes)).Close())
		for i := range 8 {
			d := e.MustServe(t, dir, Quiet(deletes))
			switch i % 4 {
			case 0:
				Set(t, d, 0, 300)
			case 1:
				Remove(t, d, 0, 300)
			case 2:
				Set(t, d, 5000, 5001)    // the same key each time
				Remove(t, d, 9000, 9001) // a key that is not there
			}
			dir = filepath.Join(base, fmt.Sprint(i+1))
			if i%3 == 0 {
				Must(t, d.Guard().Work())
			}
			if i%2 == 0 {
				Must(t, d.Copy(dir))
				Must(t, d.Close())
			} else {
				Must(t, d.Close())
				Must(t, CopyDir(dir, filepath.Join(base, fmt.Sprint(i))))
			}
		}
	})
}
