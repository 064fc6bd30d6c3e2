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
	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
)

// screenshots is where to keep screenshots:
//
//	go test ./report -run Browser -screenshots DIR
var screenshots = flag.String("screenshots", "", "an absolute path: the directory that gets what the browser shows")

// keep writes what the browser shows to that directory, if there is one.
func keep(t *testing.T, name string, content []byte) {
	if *screenshots != "" {
		if err := os.WriteFile(filepath.Join(*screenshots, name), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// browserLimit ends a browser that hangs. It is not a measurement.
const browserLimit = 5 * time.Minute

// startBrowser starts a browser without a window, with a new profile, which it creates and
// removes at the end.
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
	// A browser newer than the library sends messages that the library does not know.
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(closeTab)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	return ctx
}

// A screen is one kind of screen that the page is for.
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
	{name: "phone-dark", width: 360, height: 740, scale: 2, phone: true, media: "screen", scheme: "dark"},
	{name: "desktop", width: 880, height: 900, scale: 1, media: "screen", scheme: "light"},
	{name: "desktop-dark", width: 880, height: 900, scale: 1, media: "screen", scheme: "dark"},
	{name: "print", width: 673, height: 1000, scale: 1, media: "print", scheme: "light"}, // A4 without its margins
}

func (s screen) show(path string) chromedp.Tasks {
	return chromedp.Tasks{
		emulation.SetDeviceMetricsOverride(s.width, s.height, s.scale, s.phone),
		emulation.SetEmulatedMedia().WithMedia(s.media).WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.scheme}}),
		chromedp.Navigate("file://" + path),
	}
}

// A box is the place of something on the page, in CSS pixels.
type box struct {
	Name                string
	X, Y, Width, Height float64
}

// A layout is the look of a page, as reported by the page.
type layout struct {
	Width, ScrollWidth float64
	Broken             []string // pictures that did not load, or lack alternative text
	Small              []string // texts of less than 14 pixels
	Faint              []string // texts with less contrast than 4.5
	CutOff             []string // blocks that are narrower than what they hold
	Overlapping        []string
	Hidden             []string // figures whose command cannot be seen, unfolded
	Unfolded           []string // tables and commands that show before they are unfolded
	Breaks             []string // pictures that may go from one sheet of paper to the next
	Pictures           []box
}

//go:embed testdata/look.js
var look string

// problems checks what a page must satisfy on every screen. Its pictures must show the tones,
// unless these are nil.
func problems(ctx context.Context, dir string, s screen, tones map[string][]picture.Tone) (found []string, shot []byte, err error) {
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
		"no visible command": l.Hidden, "not folded away": l.Unfolded, "breaks between pages": l.Breaks, "too faint": l.Faint,
	} {
		for _, which := range list {
			found = append(found, what+": "+which)
		}
	}
	shown, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return nil, nil, err
	}
	return append(found, pictureProblems(shown, l.Pictures, s, tones)...), shot, nil
}

// pictureProblems looks for the colours of the series in the place of each picture.
func pictureProblems(screenshot image.Image, places []box, s screen, tones map[string][]picture.Tone) (found []string) {
	if tones != nil && len(places) != len(tones) {
		found = append(found, fmt.Sprintf("%d pictures, not %d", len(places), len(tones)))
	}
	for _, b := range places {
		if size := picture.TextSize / picture.Width * b.Width; size < 9 {
			found = append(found, fmt.Sprintf("too small: %s has texts of %.1f pixels", b.Name, size))
		}
		place := image.Rect(int(b.X*s.scale), int(b.Y*s.scale), int((b.X+b.Width)*s.scale), int((b.Y+b.Height)*s.scale)).Intersect(screenshot.Bounds())
		pixels := pixelsOf(screenshot, place)
		for _, tone := range tones[b.Name] {
			colour := tone.Light()
			if s.scheme == "dark" {
				colour = tone.Dark()
			}
			if n := pixels[colour]; n < 20 {
				found = append(found, fmt.Sprintf("%s: %d pixels in the colour of tone %d", b.Name, n, tone))
			}
		}
	}
	return found
}

// fixtureTones returns the tones in the pictures of the fixtures.
func fixtureTones(t *testing.T) map[string][]picture.Tone {
	t.Helper()
	tones := map[string][]picture.Tone{}
	for _, f := range fixtures() {
		views, err := fixtureViewers()[f.Name](f)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range views {
			name := f.Name
			if len(views) > 1 {
				name += fmt.Sprintf("-%d", i+1)
			}
			tones[name+".svg"] = tonesOf(v.Picture)
		}
	}
	return tones
}

// Checks the page of the fixtures, and that of the committed results.
func TestPageInBrowser(t *testing.T) {
	ctx := startBrowser(t)
	results, err := filepath.Abs("../results")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []struct {
		name, dir string
		tones     map[string][]picture.Tone
	}{{"fixtures", writeFixtures(t), fixtureTones(t)}, {"results", results, nil}} {
		for _, s := range screens {
			found, shot, err := problems(ctx, page.dir, s, page.tones)
			if err != nil {
				t.Fatalf("%s, %s: %v", page.name, s.name, err)
			}
			keep(t, page.name+"-"+s.name+".png", shot)
			for _, problem := range found {
				t.Errorf("%s, %s: %s", page.name, s.name, problem)
			}
		}
	}
}

// Each of these changes spoils the page in its own way, and is found.
func TestBrowserFinds(t *testing.T) {
	ctx := startBrowser(t)
	phone, desktop, dark, paper := screens[0], screens[2], screens[3], screens[4]
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
	spoilSVG := func(name, old, new string) func(dir string) error {
		return func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !strings.Contains(string(text), old) {
				return fmt.Errorf("%s has no %q: %v", name, old, err)
			}
			return os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(string(text), old, new)), 0o666)
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
		{phone, "scrolls sideways", change("max-width: 36rem", "width: 36rem")},
		{phone, "no visible command", change("white-space: pre-wrap", "white-space: pre")},
		{phone, "too small: fig4.svg", change("padding: 0 12px 3rem", "padding: 0 48px 3rem")},
		{desktop, "no visible command", change("code { display: block;", "code { display: none;")},
		{desktop, "did not load: fig2-2.svg", func(dir string) error { return os.Remove(filepath.Join(dir, "fig2-2.svg")) }},
		{desktop, "did not load", change(" alt=", " title=")},
		{desktop, "size.svg: 0 pixels", func(dir string) error { return os.WriteFile(filepath.Join(dir, "size.svg"), []byte(blank), 0o666) }},
		{desktop, "not folded away", change("<details>", "<details open>")},
		{desktop, "7 pictures", change("</main>", `<img src="size.svg" alt="again"></main>`)},
		{desktop, "too small: figcaption ", change("font-size: 14px; margin-top", "font-size: 13px; margin-top")},
		{desktop, "overlap", change(".answer { margin: 0 0 .75rem", ".answer { margin: 0 0 -3rem")},
		{dark, "too faint", change("</style>", "dd { color: #444 }</style>")},
		{dark, "fig4.svg: 0 pixels", spoilSVG("fig4.svg", "prefers-color-scheme:dark", "prefers-color-scheme:none")},
		{paper, "breaks between", change("max-width: 36rem; break-inside: avoid; }", "max-width: 36rem; }")},
		{paper, "scrolls sideways", change("figure { max-width: 30rem; }", "figure { width: 60rem; max-width: none }")},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.CopyFS(dir, os.DirFS(written)), c.spoil(dir)); err != nil {
			t.Fatal(err)
		}
		found, _, err := problems(ctx, dir, c.screen, fixtureTones(t))
		if err != nil {
			t.Fatalf("%s, %q: %v", c.screen.name, c.want, err)
		}
		if !strings.Contains(strings.Join(found, "\n"), c.want) {
			t.Errorf("%s: not found: %q, but %q", c.screen.name, c.want, found)
		}
	}
}

var sheet = regexp.MustCompile(`/Type\s*/Page\b`)

// On paper the pictures follow one another, several on each sheet.
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
	const pictures = 6
	if n := len(sheet.FindAll(pdf, -1)); n < pictures/3 || n > pictures+1 {
		t.Errorf("%d sheets of paper for %d pictures", n, pictures)
	}
}
