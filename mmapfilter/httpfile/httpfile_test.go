package httpfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

const keys = 20_000

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func key(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

// image returns the bytes of a filter of the numbered keys [from, to).
func image(tb testing.TB, from, to int) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "f.mmf")
	var all iter.Seq2[[]byte, error] = func(yield func([]byte, error) bool) {
		for i := from; i < to && yield(key(i), nil); i++ {
		}
	}
	f, err := mmapfilter.Build(context.Background(), path, nil, all)
	must(tb, err)
	must(tb, f.Close())
	data, err := os.ReadFile(path)
	must(tb, err)
	return data
}

// A site serves one file, as net/http does, and notes the ranges that it is asked for. If wrong is set,
// wrong may answer instead, and then returns true.
type site struct {
	mu     sync.Mutex
	data   []byte
	etag   string // "" for Last-Modified only
	time   time.Time
	ranges []string
	wrong  func(w http.ResponseWriter, r *http.Request) bool
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.ranges = append(s.ranges, r.Header.Get("Range"))
	data, etag, modified, wrong := s.data, s.etag, s.time, s.wrong
	s.mu.Unlock()
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	if wrong != nil && wrong(w, r) {
		return
	}
	http.ServeContent(w, r, "f.mmf", modified, bytes.NewReader(data))
}

// set changes the site.
func (s *site) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// take returns the ranges since the last call.
func (s *site) take() (ranges []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ranges, s.ranges = s.ranges, nil
	return ranges
}

// serve serves a site, and returns its URL.
func serve(tb testing.TB, s *site) string {
	server := httptest.NewServer(s)
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/f.mmf"
}

// quick returns options to try again without a pause.
func quick() *Options { return &Options{Backoff: 1, Timeout: time.Minute} }

func mustOpen(tb testing.TB, url string, opts *Options) (*File, *mmapfilter.Filter) {
	tb.Helper()
	file, err := Open(context.Background(), url, opts)
	must(tb, err)
	f, err := mmapfilter.OpenReaderAt(file, file.Size(), &mmapfilter.OpenOptions{ReadSize: 64 << 10})
	must(tb, err)
	tb.Cleanup(func() { errors.Join(f.Close(), file.Close()) })
	return file, f
}

// mustHave checks that no key is answered "certainly not", alone or in a batch.
func mustHave(tb testing.TB, name string, f *mmapfilter.Filter, from, to int) {
	tb.Helper()
	var all [][]byte
	for i := from; i < to; i++ {
		if all = append(all, key(i)); i%50 == 0 && !f.Contains(key(i)) {
			tb.Fatalf("%s: a wrong certainly not", name)
		}
	}
	found := make([]bool, len(all))
	f.ContainsBatch(all, found)
	for i, is := range found {
		if !is {
			tb.Fatalf("%s: a wrong certainly not in a batch, of key %d", name, i)
		}
	}
}

// TestServed: a filter that net/http serves answers like its file, with few requests.
func TestServed(t *testing.T) {
	data := image(t, 0, keys)
	local, err := mmapfilter.OpenBytes(data, nil)
	must(t, err)
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, s := range map[string]*site{
		"tag":      {data: data, etag: `"one"`},
		"weak tag": {data: data, etag: `W/"one"`, time: day},
		"time":     {data: data, time: day},
	} {
		file, f := mustOpen(t, serve(t, s), nil)
		if ranges := s.take(); len(ranges) != 1 || ranges[0] != "bytes=0-32767" || file.Size() != int64(len(data)) {
			t.Errorf("%s: opening asked for %q", name, ranges)
		}
		mustHave(t, name, f, 0, keys)
		s.take()
		asked := 0
		for i := keys; i < keys+500; i++ {
			if f.Contains(key(i)) != local.Contains(key(i)) {
				t.Fatalf("%s: key %d", name, i)
			}
			asked++
		}
		most := asked / 2
		if file.Weak() {
			most += asked // each "certainly not" is checked
		}
		if n := len(s.take()); n > most {
			t.Errorf("%s: %d requests for %d keys, though the file has few pages", name, n, asked)
		}
		if err := f.Err(); err != nil {
			t.Error(err)
		}
		r, err := mmapfilter.VerifyReaderAt(context.Background(), file, file.Size())
		if err != nil || r.Items != keys {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestRanges: ReadAt does what bytes.Reader.ReadAt does, with and without a cache, and the cache keeps
// to its size.
func TestRanges(t *testing.T) {
	data := image(t, 0, keys)
	s := &site{data: data, etag: `"one"`}
	url := serve(t, s)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int64{-1, 0, 3 * pageBytes} {
		file, err := Open(context.Background(), url, &Options{CacheBytes: size})
		must(t, err)
		for range 500 {
			off, n := rng.Int64N(int64(len(data))+100), rng.IntN(64<<rng.IntN(10))
			got, want := make([]byte, n), make([]byte, n)
			a, err := file.ReadAt(got, off)
			b, err2 := bytes.NewReader(data).ReadAt(want, off)
			if a != b || (err == nil) != (err2 == nil) || err != nil && err != io.EOF || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes at %d: %d, %v; not %d, %v", n, off, a, err, b, err2)
			}
			if n := file.pages.order.Len(); n != len(file.pages.pages) || n > max(file.pages.most, 0) {
				t.Fatalf("%d pages, %d", n, len(file.pages.pages))
			}
		}
		s.take()
		must(t, file.Close())
		if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	}
	_, f := mustOpen(t, url, &Options{CacheBytes: -1})
	s.take()
	f.ContainsString("absent")
	var first, last int64
	if ranges := s.take(); len(ranges) == 0 || len(ranges) > 2 {
		t.Errorf("%q", ranges)
	} else if fmt.Sscanf(ranges[0], "bytes=%d-%d", &first, &last); last-first != 63 {
		t.Errorf("%q", ranges)
	}
}

// lie answers with the part of the data that the arguments name.
func lie(w http.ResponseWriter, status int, span string, body []byte, length int) bool {
	w.Header().Set("Content-Range", span)
	if length >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(length))
	}
	w.WriteHeader(status)
	w.Write(body)
	return true
}

// wrongs are wrong ways to answer a request for the bytes [from, to) of data.
var wrongs = map[string]struct {
	answer func(w http.ResponseWriter, data []byte, from, to int) bool
	is     error // what the error matches, or nil for any
}{
	"200": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		w.Write(data)
		return true
	}, ErrNoRanges},
	"no Content-Range": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		w.WriteHeader(http.StatusPartialContent)
		w.Write(data[from:to])
		return true
	}, ErrNoRanges},
	"other bytes": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		return lie(w, 206, fmt.Sprintf("bytes %d-%d/%d", 0, to-from-1, len(data)), data[:to-from], -1)
	}, ErrNoRanges},
	"fewer bytes": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		return lie(w, 206, fmt.Sprintf("bytes %d-%d/%d", from, to-2, len(data)), data[from:to-1], -1)
	}, ErrNoRanges},
	"more bytes": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		return lie(w, 206, fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)), append(data[from:to:to], 0), -1)
	}, ErrNoRanges},
	"a negative span": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		return lie(w, 206, fmt.Sprintf("bytes %d--5/%d", from, len(data)), nil, -1)
	}, ErrNoRanges},
	"short body": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		return lie(w, 206, fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)), data[from:to-1], to-from)
	}, io.ErrUnexpectedEOF},
	"other length": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		return lie(w, 206, fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)), data[from:to-1], to-from-1)
	}, ErrNoRanges},
	"compressed": {func(w http.ResponseWriter, data []byte, from, to int) bool {
		w.Header().Set("Content-Encoding", "gzip")
		return lie(w, 206, fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)), data[from:to], -1)
	}, ErrNoRanges},
	"503":     {func(w http.ResponseWriter, data []byte, from, to int) bool { return lie(w, 503, "", nil, -1) }, nil},
	"403":     {func(w http.ResponseWriter, data []byte, from, to int) bool { return lie(w, 403, "", nil, -1) }, fs.ErrPermission},
	"404":     {func(w http.ResponseWriter, data []byte, from, to int) bool { return lie(w, 404, "", nil, -1) }, fs.ErrNotExist},
	"hung up": {func(w http.ResponseWriter, data []byte, from, to int) bool { panic(http.ErrAbortHandler) }, nil},
}

// spanOf returns the range that a request asks for.
func spanOf(r *http.Request, size int) (from, to int) {
	fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
	return from, min(to+1, size)
}

// TestWrongAnswers: whatever a server sends instead of the bytes, opening fails with a typed error, and
// an open filter answers "maybe". Once the server is right again, the filter answers correctly.
func TestWrongAnswers(t *testing.T) {
	data := image(t, 0, keys)
	for name, c := range wrongs {
		s := &site{data: data, etag: `"one"`}
		url := serve(t, s)
		_, f := mustOpen(t, url, quick())
		wrong := func(w http.ResponseWriter, r *http.Request) bool {
			from, to := spanOf(r, len(data))
			return c.answer(w, data, from, to)
		}
		s.set(func() { s.wrong = wrong })
		mustHave(t, name, f, 0, 200)
		mustHave(t, name, f, keys, keys+200)
		if err := f.Err(); err == nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: Err is %v", name, err)
		}
		if _, err := Open(context.Background(), url, quick()); name != "other bytes" && (err == nil || c.is != nil && !errors.Is(err, c.is)) {
			t.Errorf("%s: opening: %v", name, err)
		}
		s.set(func() { s.wrong = nil })
		found := 0
		for i := keys; i < keys+200; i++ {
			if f.Contains(key(i)) {
				found++
			}
		}
		if found > 50 {
			t.Errorf("%s: %d of 200 absent keys are found when the server is right again", name, found)
		}
	}
}

// TestNowAndThen: a server that is sometimes wrong never causes a wrong "certainly not".
func TestNowAndThen(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	data := image(t, 0, keys)
	var names []string
	for name := range wrongs {
		names = append(names, name)
	}
	s := &site{data: data, etag: `"one"`}
	_, f := mustOpen(t, serve(t, s), quick())
	var mu sync.Mutex
	s.set(func() {
		s.wrong = func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			name, right := names[rng.IntN(len(names))], rng.IntN(2) == 0
			mu.Unlock()
			from, to := spanOf(r, len(data))
			return !right && wrongs[name].answer(w, data, from, to)
		}
	})
	for range 5 {
		mustHave(t, "now and then", f, 0, keys)
	}
}

// TestTriesAgain: a read is tried again after failures that may pass, and fails after Options.Tries.
func TestTriesAgain(t *testing.T) {
	data := image(t, 0, keys)
	for _, name := range []string{"503", "short body", "hung up"} {
		for _, failures := range []int{2, 3} {
			s := &site{data: data, etag: `"one"`}
			var n atomic.Int32
			s.wrong = func(w http.ResponseWriter, r *http.Request) bool {
				if int(n.Add(1)) > failures {
					return false
				}
				from, to := spanOf(r, len(data))
				return wrongs[name].answer(w, data, from, to)
			}
			o := quick()
			o.Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // with keep-alives it would try again by itself
			_, err := Open(context.Background(), serve(t, s), o)
			if (err == nil) != (failures < 3) || len(s.take()) != 3 {
				t.Errorf("%s, %d times: %v", name, failures, err)
			}
		}
	}
}

// TestHangs: if a server does not answer, or stops in a body, a read ends after its tries, on Close, or
// when its context ends.
func TestHangs(t *testing.T) {
	data := image(t, 0, keys)
	for _, begins := range []bool{false, true} {
		s := &site{data: data, etag: `"one"`}
		url := serve(t, s)
		file, f := mustOpen(t, url, &Options{Tries: 2, Backoff: 1, CacheBytes: -1})
		file.opts.Timeout = 20 * time.Millisecond // only now, since opening may take longer
		closing, g := mustOpen(t, url, &Options{Timeout: time.Hour})
		s.set(func() {
			s.wrong = func(w http.ResponseWriter, r *http.Request) bool {
				if begins {
					from, to := spanOf(r, len(data))
					lie(w, 206, fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)), data[from:from+10], to-from)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
				return true
			}
		})
		if !f.ContainsString("absent") || !errors.Is(f.Err(), context.DeadlineExceeded) {
			t.Errorf("Err is %v", f.Err())
		}
		mustHave(t, "hangs", f, keys, keys+100) // one read for the batch, not one for each key
		time.AfterFunc(20*time.Millisecond, func() { closing.Close() })
		if !g.ContainsString("absent") {
			t.Error("after Close, the answer is \"certainly not\"")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		if _, err := Open(ctx, url, &Options{Timeout: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
}

// TestChanges: once another file is at the URL, all answers are "maybe", and Err says so, even if the
// first file comes back. This holds whether or not the server respects If-Match.
func TestChanges(t *testing.T) {
	data, other := image(t, 0, keys), image(t, keys, 2*keys)
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		etag, next string
		next2      []byte
		deaf       bool
	}{
		"tag":                   {`"one"`, `"two"`, other, false},
		"tag, deaf":             {`"one"`, `"two"`, other, true},
		"weak tag":              {`W/"one"`, `W/"two"`, other, false},
		"time":                  {"", "", other, false},
		"time, deaf":            {"", "", other, true},
		"no tag any more, deaf": {`"one"`, "", other, true},
		"only the size":         {`"one"`, `"one"`, append(bytes.Clone(data), 0), false},
		"shorter, the same tag": {`"one"`, `"one"`, data[:100], false},
	} {
		s := &site{data: data, etag: c.etag, time: day}
		if c.deaf {
			s.wrong = func(w http.ResponseWriter, r *http.Request) bool {
				r.Header.Del("If-Match")
				r.Header.Del("If-Unmodified-Since")
				return false
			}
		}
		file, f := mustOpen(t, serve(t, s), quick())
		s.set(func() { s.data, s.etag, s.time = c.next2, c.next, day.Add(time.Hour) })
		mustHave(t, name, f, 0, 200)
		mustHave(t, name, f, 3*keys, 3*keys+200)
		if err := f.Err(); !errors.Is(err, mmapfilter.ErrSuperseded) || !strings.Contains(err.Error(), file.Name()) {
			t.Errorf("%s: Err is %v", name, err)
		}
		s.set(func() { s.data, s.etag, s.time = data, c.etag, day })
		mustHave(t, name, f, 3*keys, 3*keys+200)
		if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, mmapfilter.ErrSuperseded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSameTime: another file of the same size and time causes no wrong "certainly not", even if only
// the superblocks tell the two files apart.
func TestSameTime(t *testing.T) {
	data, other := image(t, 0, keys), image(t, keys, 2*keys)
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, etag := range map[string]string{"time": "", "weak tag": `W/"one"`} {
		s := &site{data: data, etag: etag, time: day}
		_, f := mustOpen(t, serve(t, s), quick())
		_, counting := mustOpen(t, serve(t, s), quick())
		s.set(func() { s.data = other })
		for i := range 1000 {
			if !f.Contains(key(i)) || counting.Count(key(i)) == 0 {
				t.Fatalf("%s: key %d is certainly not there", name, i)
			}
		}
		if err := f.Err(); !errors.Is(err, mmapfilter.ErrSuperseded) {
			t.Errorf("%s: Err is %v", name, err)
		}
	}
}

// TestChangeBehindTheCache: a filter notices another file though the cache has all pages.
func TestChangeBehindTheCache(t *testing.T) {
	s := &site{data: image(t, 0, keys), etag: `"one"`}
	file, f := mustOpen(t, serve(t, s), quick())
	for off := int64(0); off < file.Size(); off += pageBytes {
		_, err := file.ReadAt(make([]byte, 1), off)
		must(t, err)
	}
	s.set(func() { s.data, s.etag = image(t, keys, 2*keys), `"two"` })
	for i := 2 * keys; i < 2*keys+500; i++ {
		f.Contains(key(i))
	}
	mustHave(t, "cached", f, keys, 2*keys)
	if err := f.Err(); !errors.Is(err, mmapfilter.ErrSuperseded) {
		t.Errorf("Err is %v", err)
	}
}

// TestRefused: bad URLs, a server that would not show a change, and an empty file are refused. No error
// shows a password or a query.
func TestRefused(t *testing.T) {
	data := image(t, 0, 100)
	s := &site{data: data}
	url := serve(t, s)
	if _, err := Open(context.Background(), url, nil); !errors.Is(err, ErrNoRanges) {
		t.Errorf("neither ETag nor Last-Modified: %v", err)
	}
	s.set(func() { s.data, s.etag = nil, `"one"` })
	if _, err := Open(context.Background(), url, nil); err == nil {
		t.Error("an empty file was opened")
	}
	for _, url := range []string{
		"", "f.mmf", "ftp://host/f", "http://", "http://%zz", "https:f", "http://me:secret@%zz/", "ftp://me:secret@example.org/f?token=secret", "https://?token=secret",
	} {
		if _, err := Open(context.Background(), url, nil); !errors.As(err, new(*fs.PathError)) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	secret := strings.Replace(url, "http://", "http://user:secret@", 1) + "?signature=secret"
	for _, wrong := range []string{"404", "hung up"} {
		s.set(func() {
			s.wrong = func(w http.ResponseWriter, r *http.Request) bool { return wrongs[wrong].answer(w, data, 0, 1) }
		})
		if _, err := Open(context.Background(), secret, quick()); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
	s.set(func() {
		s.data, s.wrong = data, func(w http.ResponseWriter, r *http.Request) bool {
			_, password, _ := r.BasicAuth()
			if password != "secret" || r.FormValue("signature") != "secret" || r.Header.Get("X-Mine") != "yes" {
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			return false
		}
	})
	file, f := mustOpen(t, secret, &Options{Header: http.Header{"X-Mine": {"yes"}}})
	mustHave(t, "with a password", f, 0, 100)
	if strings.Contains(file.Name(), "secret") {
		t.Error(file.Name())
	}
}
