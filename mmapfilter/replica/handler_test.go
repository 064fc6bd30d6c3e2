package replica

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/changes"
)

// get sends a request, with headers given as names and values.
func get(tb testing.TB, url string, headers ...string) (*http.Response, []byte) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, nil)
	must(tb, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	must(tb, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(tb, err)
	return response, body
}

// opened opens the bytes of a snapshot, which must be whole.
func opened(tb testing.TB, data []byte) *mmapfilter.Filter {
	tb.Helper()
	if _, err := mmapfilter.VerifyReaderAt(tb.Context(), bytes.NewReader(data), int64(len(data))); err != nil {
		tb.Fatal(err)
	}
	f, err := mmapfilter.OpenBytes(data, nil)
	must(tb, err)
	return f
}

// TestSnapshot: a snapshot has an ETag and ranges. One snapshot serves many requests, until too much
// has changed or a request asks for a later snapshot.
func TestSnapshot(t *testing.T) {
	f, _ := primary(t, 2000)
	url := serve(t, Handler(f)) + "/snapshot"
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			get(t, url)
		}()
	}
	wait.Wait()
	whole, data := get(t, url)
	tag := whole.Header.Get("ETag")
	snapshot := opened(t, data)
	mustHave(t, snapshot, 0, 2000)
	if whole.StatusCode != http.StatusOK || !strings.HasPrefix(tag, `"`) || snapshot.Position() != f.Position() {
		t.Fatalf("status %d, ETag %s, position %v of %v", whole.StatusCode, tag, snapshot.Position(), f.Position())
	}
	insert(t, f, 2000, 2500)
	part, rest := get(t, url, "Range", "bytes=20000-", "If-Range", tag)
	if part.StatusCode != http.StatusPartialContent || !bytes.Equal(rest, data[20000:]) {
		t.Errorf("request of a range: status %d, %d bytes", part.StatusCode, len(rest))
	}
	if r, _ := get(t, url, "If-None-Match", tag); r.StatusCode != http.StatusNotModified {
		t.Errorf("request of a snapshot that the client has: status %d", r.StatusCode)
	}
	later, data := get(t, url+"?after="+snapshot.Position().String(), "Range", "bytes=20000-", "If-Range", tag)
	if later.StatusCode != http.StatusOK || later.Header.Get("ETag") == tag {
		t.Fatalf("another snapshot: status %d, ETag %s", later.StatusCode, later.Header.Get("ETag"))
	}
	snapshot = opened(t, data)
	mustHave(t, snapshot, 0, 2500)
	if again, _ := get(t, url+"?after="+snapshot.Position().String()); again.Header.Get("ETag") != later.Header.Get("ETag") {
		t.Error("another snapshot at the same position")
	}
	insert(t, f, 2500, 2500+slack*worth/(worth-1)+500)
	_, data = get(t, url)
	if at := opened(t, data).Position(); at != f.Position() {
		t.Errorf("after many changes the snapshot is still at %v", at)
	}
	if r, _ := get(t, url+"?after=1"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("no position: status %d", r.StatusCode)
	}
}

// TestSnapshotAfterRestart: the next process serves the snapshot that it finds, so that a download can
// continue, but not a snapshot from another history, or half a file.
func TestSnapshotAfterRestart(t *testing.T) {
	f, path := primary(t, 2000)
	first, _ := get(t, serve(t, Handler(f))+"/snapshot")
	tag := first.Header.Get("ETag")
	insert(t, f, 2000, 2010)
	if again, _ := get(t, serve(t, Handler(f))+"/snapshot"); again.Header.Get("ETag") != tag {
		t.Error("the next handler creates another snapshot")
	}
	must(t, os.Truncate(path+".snapshot", 20_000))
	whole, data := get(t, serve(t, Handler(f))+"/snapshot")
	if opened(t, data).Position() != f.Position() {
		t.Errorf("a snapshot that was cut off is served: status %d", whole.StatusCode)
	}
	other, otherPath := primary(t, 1000)
	must(t, os.Rename(path+".snapshot", otherPath+".snapshot"))
	_, data = get(t, serve(t, Handler(other))+"/snapshot")
	if opened(t, data).Position() != other.Position() {
		t.Error("the snapshot of another filter is served")
	}
}

// TestRefusals: if a filter cannot be published, the status tells a replica why.
func TestRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mmf")
	f, err := mmapfilter.Create(path, &mmapfilter.Options{Capacity: 100})
	must(t, err)
	url := serve(t, Handler(f))
	if r, text := get(t, url+"/snapshot"); r.StatusCode != http.StatusNotImplemented {
		t.Errorf("without hashes: status %d, %s", r.StatusCode, text)
	}
	if r, text := get(t, url+"/health"); r.StatusCode != http.StatusOK || !strings.Contains(string(text), `"keys":0`) {
		t.Errorf("health: status %d, %s", r.StatusCode, text)
	}
	if r, _ := get(t, url+"/changes?since=nonsense"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("no position: status %d", r.StatusCode)
	}
	must(t, f.Close())
	for _, path := range []string{"/snapshot", "/health"} {
		if r, text := get(t, url+path); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s of a closed filter: status %d, %s", path, r.StatusCode, text)
		}
	}
	if r, _ := get(t, url+"/other"); r.StatusCode != http.StatusNotFound {
		t.Errorf("another path: status %d", r.StatusCode)
	}
}

// changesIn reads a set of changes: how many changes it has, and to which position they lead.
func changesIn(tb testing.TB, data []byte) (n int, to uint64) {
	tb.Helper()
	r, err := changes.NewReader(bytes.NewReader(data))
	must(tb, err)
	for ; ; n++ {
		if _, err = r.Next(); err != nil {
			break
		}
	}
	if err != io.EOF {
		tb.Fatal(err)
	}
	return n, r.Header.To.Number
}

// TestChanges: a request for changes gets them, or waits for some. If it cannot be answered, the status
// tells a replica what to do. A snapshot whose changes are gone is no longer served.
func TestChanges(t *testing.T) {
	f, _ := primary(t, 1000)
	url := serve(t, Handler(f))
	at := f.Position()
	since := url + "/changes?since=" + at.String()
	if _, data := get(t, url+"/snapshot"); opened(t, data).Position() != at {
		t.Error("another snapshot")
	}
	if r, body := get(t, since); r.StatusCode != http.StatusNoContent || len(body) > 0 || r.Header.Get(positionHeader) != at.String() {
		t.Errorf("no changes: status %d, position %s", r.StatusCode, r.Header.Get(positionHeader))
	}
	waited := make(chan int)
	go func() {
		_, body := get(t, since+"&wait=1h")
		n, _ := changesIn(t, body)
		waited <- n
	}()
	insert(t, f, 1000, 1010)
	if n := <-waited; n == 0 || n > 10 { // the request does not wait for all changes
		t.Errorf("%d changes of 10", n)
	}
	_, err := f.Delete(key(7))
	must(t, err)
	must(t, f.Sync())
	whole, data := get(t, since)
	n, to := changesIn(t, data)
	if n != 11 || to != f.Position().Number || whole.Header.Get(positionHeader) != f.Position().String() {
		t.Errorf("%d changes up to %d", n, to)
	}
	if _, data = get(t, since+"&classes="+f.Classes().String()); len(data) == 0 {
		t.Error("no changes by class")
	} else if n, _ = changesIn(t, data); n == 0 || n > 11 {
		t.Errorf("%d changes by class", n)
	}
	if r, text := get(t, since+"&classes=7"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("no classes: status %d, %s", r.StatusCode, text)
	}
	other, _ := primary(t, 10)
	if r, text := get(t, url+"/changes?since="+other.Position().String()); r.StatusCode != http.StatusConflict {
		t.Errorf("another filter: status %d, %s", r.StatusCode, text)
	}
	must(t, f.Rebuild(t.Context(), nil))
	insert(t, f, 1010, 1020)
	must(t, f.Rebuild(t.Context(), nil))
	if r, text := get(t, since); r.StatusCode != http.StatusGone {
		t.Errorf("after rebuilds: status %d, %s", r.StatusCode, text)
	}
	_, data = get(t, url+"/snapshot")
	if again := opened(t, data).Position(); again != f.Position() {
		t.Errorf("after rebuilds: the snapshot is still at %v", again)
	}
}

// TestPublishReplica: a replica that keeps its hashes can be published in turn, with its own history.
func TestPublishReplica(t *testing.T) {
	f, _ := primary(t, 1000)
	path := filepath.Join(t.TempDir(), "copy")
	at, err := f.SnapshotWithHashes(t.Context(), path)
	must(t, err)
	kept, err := mmapfilter.Open(path, nil)
	must(t, err)
	t.Cleanup(func() { kept.Close() })
	r, _ := follow(t, serve(t, Handler(kept)))
	mustHave(t, r, 0, 1000)
	insert(t, f, 1000, 1500)
	var set bytes.Buffer
	_, err = f.Changes(t.Context(), &set, at)
	must(t, err)
	_, err = kept.Apply(t.Context(), &set)
	must(t, err)
	until(t, "the changes of the replica", func() bool { return r.Len() == 1500 })
	mustHave(t, r, 0, 1500)
	if s := r.Stats(); s.Snapshots != 1 || s.Position == kept.Position() {
		t.Errorf("%+v, but the published replica is at %v", s, kept.Position())
	}
}
