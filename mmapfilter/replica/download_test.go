package replica

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestFirstCopy: a first copy is correct in spite of a network that does everything wrong.
func TestFirstCopy(t *testing.T) {
	f, _ := primary(t, 20_000)
	p := newProxy(1)
	p.set(serve(t, Handler(f)), 70)
	url := serve(t, p)
	for range 20 {
		r, path := follow(t, url)
		mustHave(t, r, 0, 20_000)
		if r.Len() != 20_000 || r.Stats().Snapshots != 1 {
			t.Errorf("%d keys, %d snapshots", r.Len(), r.Stats().Snapshots)
		}
		must(t, r.Close())
		if _, err := os.Stat(path + ".part"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a part is left: %v", err)
		}
	}
	t.Log(p.done)
}

// TestResume: a download continues where it was cut off, even in another process, and begins anew if
// the part is from another snapshot.
func TestResume(t *testing.T) {
	f, _ := primary(t, 20_000)
	var bytesSent atomic.Int64
	h := Handler(f)
	var cut atomic.Int64
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&cutter{w, &bytesSent, &cut}, r)
	}))
	path := filepath.Join(t.TempDir(), "replica.mmf")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cut.Store(30_000)
	r := &Replica{path: path, opts: quick().withDefaults()}
	var err error
	r.url, _, err = parse(url)
	must(t, err)
	if err := r.download(t.Context(), mmapfilter.Position{}); err == nil {
		t.Fatal("a download succeeds though it was cut off")
	}
	cut.Store(0)
	info, err := os.Stat(path + ".part")
	must(t, err)
	if info.Size() == 0 || info.Size() > 40_000 {
		t.Fatalf("the part has %d bytes", info.Size())
	}
	before := bytesSent.Load()
	if _, err := Follow(ctx, url, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	must(t, r.download(t.Context(), mmapfilter.Position{}))
	whole, err := os.Stat(path + ".part")
	must(t, err)
	if sent := bytesSent.Load() - before; sent != whole.Size()-info.Size() {
		t.Errorf("%d bytes were sent again, not %d", sent, whole.Size()-info.Size())
	}
	must(t, r.download(t.Context(), mmapfilter.Position{})) // there is nothing left to send
	if sent := bytesSent.Load() - before; sent > whole.Size()-info.Size()+100 {
		t.Errorf("%d bytes were sent for a part that is whole", sent)
	}

	must(t, os.Truncate(path+".part", 50_000)) // the part is from the earlier snapshot
	other, _ := primary(t, 100)
	followed, err := Follow(t.Context(), serve(t, Handler(other)), path, nil)
	must(t, err)
	defer followed.Close()
	mustHave(t, followed, 0, 100)
	if followed.Len() != 100 {
		t.Errorf("the replica has %d keys", followed.Len())
	}
}

// A cutter ends an answer after some bytes.
type cutter struct {
	http.ResponseWriter
	sent, most *atomic.Int64
}

func (c *cutter) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(b))) // before the write, since the client may be quick
	n, err := c.ResponseWriter.Write(b)
	if most := c.most.Load(); most > 0 && c.sent.Load() >= most {
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// TestFollowRefuses: Follow fails if somebody must remove the cause, and the error says what to do.
func TestFollowRefuses(t *testing.T) {
	f, own := primary(t, 10)
	url := serve(t, Handler(f))
	dir := t.TempDir()
	statusOf := func(status int) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }))
	}
	bare, err := mmapfilter.Create(filepath.Join(dir, "bare"), &mmapfilter.Options{Capacity: 100})
	must(t, err)
	defer bare.Close()
	must(t, os.WriteFile(filepath.Join(dir, "text"), []byte("no filter at all"), 0o666))
	copied := filepath.Join(dir, "copy")
	must(t, f.Seal(t.Context()))
	data, err := os.ReadFile(own)
	must(t, err)
	must(t, os.WriteFile(copied, data, 0o666))
	for what, c := range map[string]struct {
		url, path string
		opts      *Options
		is        error
		says      string
	}{
		"no URL":               {url: "example.org", is: nil, says: "not an http or https URL"},
		"no handler":           {url: statusOf(404), is: fs.ErrNotExist, says: "must be that of a replica.Handler"},
		"another page":         {url: statusOf(200), is: errNoHandler, says: "must be that of a replica.Handler"},
		"no authorization":     {url: statusOf(401), is: fs.ErrPermission, says: "Options.Header"},
		"no hashes":            {url: serve(t, Handler(bare)), is: mmapfilter.ErrNoHashes, says: "KeepHashes"},
		"too large":            {url: url, opts: &Options{MaxBytes: 1000}, is: errTooLarge, says: "MaxBytes is 1000"},
		"no filter in its way": {url: url, path: "text", is: mmapfilter.ErrCorrupt},
		"filter in its way":    {url: url, path: "copy", says: "not a replica"},
	} {
		if c.path == "" {
			c.path = "new"
		}
		r, err := Follow(t.Context(), c.url, filepath.Join(dir, c.path), c.opts)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		if r != nil {
			t.Errorf("%s: there is a replica", what)
		}
	}
	if _, err := Follow(t.Context(), "http://user:secret@localhost:1/?sig=secret", filepath.Join(dir, "none", "x"), nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// TestTwoFirstCopies: while a replica downloads its first copy, no other replica does so at the same
// path. Otherwise the download could write to a file that the other replica has installed.
func TestTwoFirstCopies(t *testing.T) {
	f, _ := primary(t, 500)
	h := Handler(f)
	var asked atomic.Int64
	arrived, goOn := make(chan bool), make(chan bool)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == snapshotPath && asked.Add(1) == 1 {
			close(arrived)
			<-goOn
		}
		h.ServeHTTP(w, r)
	}))
	path := filepath.Join(t.TempDir(), "replica.mmf")
	var first *Replica
	done := make(chan error, 1)
	go func() {
		var err error
		first, err = Follow(t.Context(), url, path, quick())
		done <- err
	}()
	<-arrived
	second, err := Follow(t.Context(), url, path, quick())
	close(goOn)
	if !errors.Is(err, mmapfilter.ErrLocked) {
		t.Errorf("the second replica: %v", err)
	}
	if err == nil {
		defer second.Close()
	}
	must(t, <-done)
	defer first.Close()
	mustHave(t, first, 0, 500)
}

// TestBadRanges: a download fails if the server answers with another range than requested, or with a
// range of another snapshot.
func TestBadRanges(t *testing.T) {
	const have = 20_000
	r := &Replica{path: filepath.Join(t.TempDir(), "replica.mmf"), opts: quick().withDefaults()}
	for _, says := range []string{
		"bytes 10-29999/30000",
		"bytes 20000-9/10", "bytes 20000-19999/20000", "bytes 20000--2/-1", "bytes 10-20/21", "bytes 20000-30000/40000", "",
		"other", // bytes 20000-29999/30000, but of another snapshot
	} {
		must(t, os.WriteFile(r.part(), make([]byte, have), 0o666))
		f, err := os.Open(r.part())
		must(t, err)
		tag, err := tagOf(f)
		must(t, err)
		f.Close()
		r.url, _, err = parse(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(positionHeader, mmapfilter.Position{}.String())
			w.Header().Set("ETag", tag)
			w.Header().Set("Content-Range", says)
			if says == "other" {
				w.Header().Set("ETag", `"other"`)
				w.Header().Set("Content-Range", "bytes 20000-29999/30000")
			}
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, 10_000))
		})))
		must(t, err)
		if err := r.download(t.Context(), mmapfilter.Position{}); err == nil || !strings.Contains(err.Error(), "answers a request for the bytes from 20000 on") {
			t.Errorf("%q: %v", says, err)
		}
		if _, err := os.Stat(r.part()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: the part is kept: %v", says, err)
		}
	}
}

// TestDamagedSnapshot: a snapshot that was damaged on the way is not installed.
func TestDamagedSnapshot(t *testing.T) {
	f, _ := primary(t, 2000)
	h := Handler(f)
	var asked atomic.Int64
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		h.ServeHTTP(whole, r)
		for name, values := range whole.Header() {
			w.Header()[name] = values
		}
		data := whole.Body.Bytes()
		if r.URL.Path == snapshotPath && asked.Add(1) == 1 {
			data[len(data)/2] ^= 1
		}
		w.WriteHeader(whole.Code)
		w.Write(data)
	}))
	r, _ := follow(t, url)
	if s := r.Stats(); s.Failures != 1 || s.Snapshots != 1 || asked.Load() != 2 {
		t.Errorf("after %d downloads, %+v", asked.Load(), s)
	}
	mustHave(t, r, 0, 2000)
}
