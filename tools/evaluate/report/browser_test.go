package report

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"gonum.org/v1/plot/vg"
)

// screenshots are kept for who wants to see them:
//
//	go test ./report -run Browser -screenshots DIR
var screenshots = flag.String("screenshots", "", "an absolute path: the directory that gets what the browser shows")

// keep writes what the browser shows where it was asked for.
func keep(t *testing.T, name string, content []byte) {
	if *screenshots != "" {
		if err := os.WriteFile(filepath.Join(*screenshots, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// browserLimit ends a browser that hangs. It is no measure of anything.
const browserLimit = 5 * time.Minute

// startBrowser starts a browser without a window, with a new profile: where none is
// named it makes one, and removes it at the end.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("NOT TESTED: the page in a browser, for there is no chromium here")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(browserLimit),
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // as root there is none
	}
	ctx, stop := context.WithTimeout(context.Background(), browserLimit)
	t.Cleanup(stop)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	// A browser newer than the library says things the library does not know.
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(closeTab)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	return ctx
}

// A screen is one of those that the page is for.
type screen struct {
	name          string
	width, height int64
	scale         float64
	phone         bool
	media         string
	scheme        string
}

var screens = []screen{
	{name: "phone", width: 360, height: 740, scale: 2, phone: true, media: "screen", scheme: "light"},
	{name: "desktop", width: 1280, height: 900, scale: 1, media: "screen", scheme: "light"},
	{name: "dark", width: 1280, height: 900, scale: 1, media: "screen", scheme: "dark"},
	{name: "print", width: 673, height: 1000, scale: 1, media: "print", scheme: "light"}, // A4 without its margins
}

func (s screen) show(path string) chromedp.Tasks {
	return chromedp.Tasks{
		emulation.SetDeviceMetricsOverride(s.width, s.height, s.scale, s.phone),
		emulation.SetEmulatedMedia().WithMedia(s.media).WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.scheme}}),
		chromedp.Navigate("file://" + path),
	}
}

// A box is where something is on the page, in CSS pixels.
type box struct {
	Name                string
	X, Y, Width, Height float64
}

// A layout is what a page looks like, by its own account.
type layout struct {
	Width, ScrollWidth float64
	Broken             []string // pictures that did not load, or without a text instead
	Small              []string // texts of less than 14 pixels
	Faint              []string // texts with less contrast than 4.5
	CutOff             []string // blocks that are narrower than what they hold
	Overlapping        []string
	Hidden             []string // figures whose command cannot be seen
	Breaks             []string // pictures that may go from one sheet of paper to the next
	Pictures           []box
}

//go:embed testdata/look.js
var look string

// problems holds a page against what it must be on every screen.
func problems(ctx context.Context, dir string, s screen) (found []string, shot []byte, err error) {
	var answer string
	err = chromedp.Run(ctx, s.show(filepath.Join(dir, "index.html")),
		chromedp.Evaluate(look, &answer, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
		chromedp.FullScreenshot(&shot, 100))
	if err != nil {
		return nil, nil, err
	}
	var l layout
	if err := json.Unmarshal([]byte(answer), &l); err != nil {
		return nil, nil, err
	}
	if l.Width != float64(s.width) {
		found = append(found, fmt.Sprintf("the page is laid out for %v pixels, not %d", l.Width, s.width))
	}
	if l.ScrollWidth > l.Width {
		found = append(found, fmt.Sprintf("the page scrolls sideways: %v > %v", l.ScrollWidth, l.Width))
	}
	for what, list := range map[string][]string{
		"did not load": l.Broken, "too small": l.Small, "cut off": l.CutOff, "overlap": l.Overlapping,
		"no visible command": l.Hidden, "breaks between pages": l.Breaks, "too faint": l.Faint,
	} {
		for _, which := range list {
			found = append(found, what+": "+which)
		}
	}
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return nil, nil, err
	}
	return append(found, pictureProblems(picture, l.Pictures, s.scale)...), shot, nil
}

// pictureProblems looks in the place of each picture for the colours of its series.
func pictureProblems(screenshot image.Image, places []box, scale float64) (found []string) {
	series := map[string]int{}
	for _, f := range fixtures() {
		for i, p := range f.Plots {
			series[f.picture(i)+".svg"] = len(p.Series)
		}
	}
	if len(places) != len(series) {
		found = append(found, fmt.Sprintf("%d pictures, not %d", len(places), len(series)))
	}
	for _, b := range places {
		if size := plainStyle.Font.Size / pictureWidth * vg.Length(b.Width); size < 11 {
			found = append(found, fmt.Sprintf("too small: %s has texts of %.1f pixels", b.Name, size))
		}
		place := image.Rect(int(b.X*scale), int(b.Y*scale), int((b.X+b.Width)*scale), int((b.Y+b.Height)*scale)).Intersect(screenshot.Bounds())
		pixels := pixelsOf(screenshot, place)
		for i := range series[b.Name] {
			if n := pixels[palette[i]]; n < 20 {
				found = append(found, fmt.Sprintf("%s: %d pixels in the colour of series %d", b.Name, n, i))
			}
		}
	}
	return found
}

func TestPageInBrowser(t *testing.T) {
	ctx := startBrowser(t)
	dir := writeFixtures(t)
	for _, s := range screens {
		found, shot, err := problems(ctx, dir, s)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		keep(t, s.name+".png", shot)
		for _, problem := range found {
			t.Errorf("%s: %s", s.name, problem)
		}
	}
}

// Each of these spoils the page in its own way, and is found.
func TestBrowserFinds(t *testing.T) {
	ctx := startBrowser(t)
	phone, desktop, dark, paper := screens[0], screens[1], screens[2], screens[3]
	phone.scale = 1 // enough for this, and a quarter of the pixels
	change := func(old, new string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, "index.html")
			text, err := os.ReadFile(path)
			if err == nil && !strings.Contains(string(text), old) {
				err = fmt.Errorf("the page has no %q", old)
			}
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), old, new)), 0o666)
		}
	}
	written := writeFixtures(t)
	const blank = `<svg xmlns="http://www.w3.org/2000/svg" width="300pt" height="200pt"></svg>`
	for _, c := range []struct {
		screen screen
		want   string
		spoil  func(dir string) error
	}{
		{phone, "scrolls sideways", change(".scroll { overflow-x: auto;", ".scroll {")},
		{phone, "cut off", change(".scroll { overflow-x: auto;", ".scroll { overflow-x: hidden;")},
		{phone, "laid out for", change(`<meta name="viewport" content="width=device-width, initial-scale=1">`, "")},
		{phone, "scrolls sideways", change("max-width: 32rem", "width: 32rem")},
		{phone, "no visible command", change("white-space: pre-wrap", "white-space: pre")},
		{phone, "too small: fig4.svg", change("padding: 0 12px 3rem", "padding: 0 32px 3rem")},
		{desktop, "no visible command", change("code { display: block;", "code { display: none;")},
		{desktop, "did not load: fig2-2.svg", func(dir string) error { return os.Remove(filepath.Join(dir, "fig2-2.svg")) }},
		{desktop, "did not load", change(" alt=", " title=")},
		{desktop, "size.svg: 0 pixels", func(dir string) error { return os.WriteFile(filepath.Join(dir, "size.svg"), []byte(blank), 0o666) }},
		{desktop, "7 pictures", change("</main>", `<img src="size.svg" alt="again"></main>`)},
		{desktop, "too small: p ", change(".from { font-size: 14px; }", ".from { font-size: 13px; }")},
		{desktop, "overlap", change("dl, ul {", "dl { margin-top: -40px } dl, ul {")},
		{dark, "too faint", change("</style>", "dd { color: #444 }</style>")},
		{paper, "breaks between", change("break-inside: avoid; }\nfigure img", "}\nfigure img")},
		{paper, "scrolls sideways", change("td { white-space: normal; }", "td { min-width: 8rem; }")},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.CopyFS(dir, os.DirFS(written)), c.spoil(dir)); err != nil {
			t.Fatal(err)
		}
		found, _, err := problems(ctx, dir, c.screen)
		if err != nil {
			t.Fatalf("%s, %q: %v", c.screen.name, c.want, err)
		}
		if !strings.Contains(strings.Join(found, "\n"), c.want) {
			t.Errorf("%s: not found: %q, but %q", c.screen.name, c.want, found)
		}
	}
}

var sheet = regexp.MustCompile(`/Type\s*/Page\b`)

// On paper each figure begins a sheet, the first one below the introduction.
func TestPrint(t *testing.T) {
	ctx := startBrowser(t)
	dir := writeFixtures(t)
	var pdf []byte
	err := chromedp.Run(ctx, chromedp.Navigate("file://"+filepath.Join(dir, "index.html")),
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			pdf, _, err = page.PrintToPDF().WithPaperWidth(8.27).WithPaperHeight(11.69).Do(ctx)
			return err
		}))
	if err != nil {
		t.Fatal(err)
	}
	keep(t, "print.pdf", pdf)
	if n, want := len(sheet.FindAll(pdf, -1)), len(fixtures()); n < want || n > 2*want {
		t.Errorf("%d sheets of paper for %d figures", n, len(fixtures()))
	}
}
