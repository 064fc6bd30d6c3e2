package sets

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"golang.org/x/sys/unix"
)

// mustUnmap waits until garbage collection has removed all mappings of a file.
func mustUnmap(t *testing.T, path string) {
	t.Helper()
	for range 1000 {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip("NOT TESTED: what is mapped: ", err)
		}
		if !bytes.Contains(maps, []byte(path)) {
			return
		}
		runtime.GC()
	}
	t.Errorf("%s stays mapped", path)
}

// TestNothingStaysMapped: a set lets go of a file that another file has replaced, of the files of a
// manifest that it no longer uses, and of all files when it is closed.
func TestNothingStaysMapped(t *testing.T) {
	dir := t.TempDir()
	p := mustPlan(t, mmapfilter.Options{Capacity: 9000}, 3)
	path := mustBuild(t, dir, p, numbers(0, 6000))
	s := mustFollow(t, path, mmapfilter.OpenOptions{})
	mustHave(t, s, 0, 6000)
	for _, file := range shards(t, path) {
		f, err := mmapfilter.Open(file, nil)
		must(t, err)
		must(t, f.Rebuild(background, &mmapfilter.RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) { return numbers(0, 6000), nil }}))
		must(t, f.Close())
		_, err = s.Refresh()
		must(t, err)
		mustHave(t, s, 0, 6000)
		mustUnmap(t, file+" (deleted)")
	}
	old := shards(t, path)
	mustBuild(t, dir, p, numbers(0, 7000))
	_, err := s.Refresh()
	must(t, err)
	mustHave(t, s, 0, 7000)
	for _, file := range old {
		mustUnmap(t, file)
	}
	must(t, s.Close())
	mustUnmap(t, filepath.Join(dir, "shard-"))
	if s.Len() != 7000 {
		t.Errorf("%d keys", s.Len())
	}
}

// TestPipe: a pipe is no set, and opening it does not wait for a writer.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.set")
	must(t, unix.Mkfifo(path, 0o600))
	if set, err := IsSet(path); set || err != nil {
		t.Errorf("%t, %v", set, err)
	}
	if _, err := Open(path, nil); err == nil {
		t.Error("a pipe has been opened")
	}
}
