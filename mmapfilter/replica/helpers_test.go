package replica

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func key(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

// primary creates a filter that keeps its hashes, with the numbered keys [0, n). It grows only once it
// has 900 keys, and 1.8 times n, since a growth ends the history at a time of its own.
func primary(tb testing.TB, n int) (*mmapfilter.Filter, string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "primary.mmf")
	f, err := mmapfilter.Create(path, &mmapfilter.Options{Capacity: uint64(max(1000, 2*n)), AutoGrow: true})
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	insert(tb, f, 0, n)
	return f, path
}

// insert inserts numbered keys, and syncs.
func insert(tb testing.TB, f *mmapfilter.Filter, from, to int) {
	tb.Helper()
	for i := from; i < to; i++ {
		must(tb, f.Insert(key(i)))
	}
	must(tb, f.Sync())
}

// mustHave checks that no numbered key is answered "certainly not".
func mustHave(tb testing.TB, r interface{ Contains([]byte) bool }, from, to int) {
	tb.Helper()
	for i := from; i < to; i++ {
		if !r.Contains(key(i)) {
			tb.Fatalf("key %d is answered \"certainly not\"", i)
		}
	}
}

// serve serves a handler, and returns its URL.
func serve(tb testing.TB, h http.Handler) string {
	server := httptest.NewServer(h)
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// follow returns a replica in a new file, which makes no long pauses.
func follow(tb testing.TB, url string) (*Replica, string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "replica.mmf")
	r, err := Follow(tb.Context(), url, path, quick())
	must(tb, err)
	tb.Cleanup(func() { r.Close() })
	return r, path
}

func quick() *Options {
	return &Options{Wait: 200 * time.Millisecond, Interval: time.Millisecond, Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}
}

// until waits for a condition, and fails after a time in which it must hold unless something hangs.
func until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("never: " + what)
		}
	}
}

// untilAt waits until a replica is at the position of its primary.
func untilAt(tb testing.TB, r *Replica, f *mmapfilter.Filter) {
	tb.Helper()
	until(tb, fmt.Sprintf("the replica is at %v", f.Position()), func() bool { return r.Stats().Position == f.Position() })
}

// A proxy stands between replicas and a primary, and does what networks and machines between them do:
// it drops and delays requests and answers, cuts answers off, damages them, and repeats old answers.
type proxy struct {
	mu      sync.Mutex
	rng     *rand.Rand
	to      string            // the URL of the primary; "" while there is none
	trouble int               // requests of 100 that go wrong
	old     map[string][]sent // answers, by path
	done    map[string]int    // how often it did each thing
	answers map[string]int    // of the primary, by status; the status of an unexpected refusal has its text, too
}

// A sent is an answer that was sent.
type sent struct {
	status int
	header http.Header
	body   []byte
}

func newProxy(seed uint64) *proxy {
	return &proxy{rng: rand.New(rand.NewPCG(seed, 1)), old: map[string][]sent{}, done: map[string]int{}, answers: map[string]int{}}
}

// set changes the proxy.
func (p *proxy) set(to string, trouble int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to, p.trouble = to, trouble
}

// reach tells the proxy the URL of the primary.
func (p *proxy) reach(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

// choose returns what to do with a request, and a random number.
func (p *proxy) choose() (to, what string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what = "pass"
	if p.rng.IntN(100) < p.trouble {
		what = []string{"drop", "drop the answer", "delay", "cut off", "end early", "damage", "repeat"}[p.rng.IntN(7)]
	}
	p.done[what]++
	return p.to, what, p.rng.IntN(1 << 30)
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, what, n := p.choose()
	if to == "" || what == "drop" {
		panic(http.ErrAbortHandler)
	}
	if what == "delay" {
		time.Sleep(time.Duration(n%50) * time.Millisecond)
	}
	a, err := pass(to, r)
	if err != nil || what == "drop the answer" {
		panic(http.ErrAbortHandler)
	}
	p.mu.Lock()
	answer := fmt.Sprint(a.status)
	if a.status == http.StatusInternalServerError {
		answer += string(a.body)
	}
	p.answers[answer]++
	if all := p.old[r.URL.Path]; what == "repeat" && len(all) > 0 {
		a = all[n%len(all)]
	} else if len(all) < 100 {
		p.old[r.URL.Path] = append(all, a)
	}
	p.mu.Unlock()
	body := bytes.Clone(a.body)
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if len(body) > 0 {
		switch what {
		case "cut off": // Content-Length still has the whole length
			w.WriteHeader(a.status)
			w.Write(body[:n%len(body)])
			panic(http.ErrAbortHandler)
		case "end early":
			body = body[:n%len(body)]
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		case "damage":
			body[n%len(body)] ^= byte(1 << (n % 7))
		}
	}
	w.WriteHeader(a.status)
	w.Write(body)
}

// pass sends a request on.
func pass(to string, r *http.Request) (a sent, err error) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), nil)
	if err != nil {
		return a, err
	}
	request.Header = r.Header.Clone()
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return sent{response.StatusCode, response.Header, body}, err
}
