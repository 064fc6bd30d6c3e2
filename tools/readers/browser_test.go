package readers

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

var screens = flag.String("screens", "", "the directory for the screenshots of TestPage")

const pageItems = 1_000_000

// visit is a page that uses index.html as a person would, in a frame for each width, and posts what it
// sees.
const visit = `<!doctype html><body><script type="module">
const sees = []
const until = async ready => { while (!ready()) await new Promise(done => setTimeout(done, 20)) }
for (const width of [360, 1000]) {
	const frame = document.createElement('iframe')
	Object.assign(frame, { width, height: 900, src: '/index.html' })
	document.body.append(frame)
	await new Promise(done => frame.onload = done)
	const page = frame.contentDocument, $ = id => page.getElementById(id)
	const submit = id => page.querySelector('#' + id + ' button').click()
	const shown = id => $('result').hidden ? '' : $(id).textContent
	const say = what => sees.push({ what, width, answer: shown('answer'), cost: shown('cost'), about: $('about').textContent, error: $('error').textContent,
		lines: page.querySelectorAll('#result:not([hidden]) canvas').length, scroll: page.documentElement.scrollWidth })
	const opened = async () => { await until(() => $('error').textContent || !$('question').hidden) ; say('opened') }
	const ask = async key => {
		await fetch('/note?' + encodeURIComponent(key))
		$('result').hidden = true
		$('key').value = key
		submit('question')
		await until(() => $('error').textContent || !$('result').hidden)
		say(key)
	}
	const choose = async (url, file) => {
		$('question').hidden = true
		$('error').textContent = ''
		if (file) {
			const files = new DataTransfer()
			files.items.add(new File([await (await fetch(url)).blob()], 'x.mmf'))
			$('file').files = files.files
			$('file').dispatchEvent(new Event('change'))
		} else {
			$('url').value = url
			submit('source')
		}
		await opened()
	}
	await choose('/none.mmf')
	await choose('/index.html')
	await choose('/million.mmf')
	for (const key of ['key 0', 'key 999999', 'absent 1', 'absent 2', 'absent 3']) await ask(key)
	await fetch('/replace')
	await ask('absent 1')
	await choose('/packed.mmf', true)
	await ask('key 7')
	await ask('absent 1')
}
await fetch('/report', { method: 'POST', body: JSON.stringify(sees) })
</script>`

type seen struct {
	What, Answer, About, Cost, Error string
	Width, Lines, Scroll             int
}

// A site is a static server with the page and filters. It notes the ranges that are requested.
type site struct {
	http.Handler
	report chan []seen
	mu     struct {
		sync.Mutex
		key     string
		ranges  map[string][]string // of million.mmf, by the key that was looked up last
		version int
	}
}

func newSite(million, packed string) *site {
	s, mux := &site{report: make(chan []seen, 1)}, http.NewServeMux()
	s.Handler, s.mu.ranges = mux, map[string][]string{}
	mux.Handle("GET /", http.FileServer(http.Dir("js")))
	mux.HandleFunc("GET /visit", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, visit) })
	mux.HandleFunc("GET /million.mmf", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.ranges[s.mu.key] = append(s.mu.ranges[s.mu.key], r.Header.Get("Range"))
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, s.mu.version))
		http.ServeFile(w, r, million)
	})
	mux.HandleFunc("GET /packed.mmf", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, packed) })
	mux.HandleFunc("GET /replace", func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.version++
	})
	mux.HandleFunc("GET /note", func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.key, _ = url.QueryUnescape(r.URL.RawQuery)
	})
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		var all []seen
		json.NewDecoder(r.Body).Decode(&all)
		s.report <- all
	})
	return s
}

func buildFile(t *testing.T, path string, opts *mmapfilter.Options, n int) {
	t.Helper()
	f, err := mmapfilter.Build(context.Background(), path, opts, func(yield func([]byte, error) bool) {
		for i := 0; i < n && yield(fmt.Appendf(nil, "key %d", i), nil); i++ {
		}
	})
	must(t, err)
	f.Close()
}

// TestPage opens js/index.html in Chromium, and looks up keys in filters on a server and in a file.
func TestPage(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		notTested(t, "the page in JavaScript: there is no chromium")
	}
	dir := t.TempDir()
	million, packed := filepath.Join(dir, "million.mmf"), filepath.Join(dir, "packed.mmf")
	buildFile(t, million, nil, pageItems)
	buildFile(t, packed, &mmapfilter.Options{Layout: layout.Packed, FingerprintBits: 12}, 1000)
	site := newSite(million, packed)
	server := httptest.NewServer(site)
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var said bytes.Buffer
	cmd := browse(ctx, chromium, dir, server.URL+"/visit")
	cmd.Stderr = &said
	must(t, cmd.Start())
	var all []seen
	select {
	case all = <-site.report:
	case <-ctx.Done():
		t.Errorf("the page has not reported what it sees: %s", &said)
	}
	cancel()
	cmd.Wait()
	checkSeen(t, all, site)
	checkScreens(t, chromium, server.URL)
}

// browse returns a command that shows a page without a screen.
func browse(ctx context.Context, chromium, dir string, args ...string) *exec.Cmd {
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--user-data-dir=" + filepath.Join(dir, "profile")}, args...)
	cmd := exec.CommandContext(ctx, chromium, args...)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func checkSeen(t *testing.T, all []seen, site *site) {
	t.Helper()
	want := []struct{ what, answer, text string }{ // text must be in what the page says about the file, the cost or an error
		{"opened", "", "status 404"},
		{"opened", "", "no filter"},
		{"opened", "", "compact, 1,000,000 items"},
		{"key 0", "maybe", "64 bytes in 1 read"},
		{"key 999999", "maybe", "64 bytes in 1 read"},
		{"absent 1", "certainly not", "64 bytes in 1 read"},
		{"absent 2", "certainly not", "64 bytes in 1 read"},
		{"absent 3", "certainly not", "64 bytes in 1 read"},
		{"absent 1", "", "another file"},
		{"opened", "", "packed, 1,000 items"},
		{"key 7", "maybe", "bytes in"},
		{"absent 1", "certainly not", "bytes in 2 reads"},
	}
	if len(all) != 2*len(want) {
		t.Fatalf("the page has seen %+v", all)
	}
	for i, s := range all {
		w := want[i%len(want)]
		if s.What != w.what || s.Answer != w.answer || !strings.Contains(s.About+s.Cost+s.Error, w.text) || s.Scroll > s.Width || (s.Answer != "") != (s.Lines > 0) {
			t.Errorf("%+v, not %q", s, w)
		}
	}
	for key, ranges := range site.mu.ranges {
		if key == "" || key == "absent 1" { // for opening, and for the file that was replaced
			continue
		}
		if len(ranges) < 2 || slices.Contains(ranges, "bytes=0-32767") && key != "key 7" {
			t.Errorf("the lookup of %q requests the ranges %q", key, ranges)
		}
	}
}

// checkScreens takes screenshots of the page with an answer, in the widths of a phone and of a computer.
func checkScreens(t *testing.T, chromium, server string) {
	t.Helper()
	for _, width := range []int{360, 1000} {
		dir := t.TempDir()
		path := filepath.Join(dir, "screen.png")
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		cmd := browse(ctx, chromium, dir, "--hide-scrollbars", "--virtual-time-budget=20000", "--screenshot="+path, fmt.Sprintf("--window-size=%d,900", width),
			server+"/index.html?url=/million.mmf&key=key%2012")
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		picture, err := png.Decode(bytes.NewReader(mustRead(t, path)))
		must(t, err)
		pixels, size := map[[3]uint32]int{}, picture.Bounds()
		for y := range size.Dy() {
			for x := range size.Dx() {
				r, g, b, _ := picture.At(x, y).RGBA()
				pixels[[3]uint32{r, g, b}]++
			}
		}
		slots, most := pixels[[3]uint32{0x2222, 0x8888, 0x3333}], 0
		for _, n := range pixels {
			most = max(most, n)
		}
		if size.Dx() != width || slots < 2000 || 10*most > 9*size.Dx()*size.Dy() {
			t.Errorf("%v: %d pixels of slots, %d of one colour", size, slots, most)
		}
		if *screens != "" {
			copyFile(t, path, filepath.Join(*screens, fmt.Sprint(width, ".png")))
		}
	}
}
