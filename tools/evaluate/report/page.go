package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// order is that of the paper, and our own last. Others come after, by name.
var order = []string{"fig2", "fig3", "fig4", "table3", "fig5", "fig6", "fig7", "fig8", "size"}

// ErrNoFigure says that there is nothing to make a page of.
var ErrNoFigure = errors.New("no figure has been written there")

// A RecordError says of a NAME.json that no page can be made with it.
type RecordError struct {
	Path string
	Err  error
}

func (e *RecordError) Error() string { return fmt.Sprintf("figure in %s: %v", e.Path, e.Err) }
func (e *RecordError) Unwrap() error { return e.Err }

// Page makes dir/index.html of all figures that Write has written to dir. It needs
// their pictures beside it, and nothing else. It fails with ErrNoFigure or a
// *RecordError, and leaves the page that was there.
func Page(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("%s: %w", dir, ErrNoFigure)
	}
	var records []record
	for _, path := range paths {
		r, err := readRecord(path)
		if err != nil {
			return &RecordError{path, err}
		}
		records = append(records, r)
	}
	slices.SortStableFunc(records, func(a, b record) int { return rank(a.Figure.Name) - rank(b.Figure.Name) })
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, records); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "index.html"), page.Bytes())
}

func rank(name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// readRecord reads a figure whose pictures are there.
func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	if err := r.Figure.check(); err != nil {
		return r, err
	}
	if r.Figure.Name+".json" != filepath.Base(path) {
		return r, fmt.Errorf("it is that of %s", r.Figure.Name)
	}
	for i := range r.Figure.Plots {
		for _, kind := range []string{".svg", ".png"} {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), r.Figure.picture(i)+kind)); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// A shownPicture is what the page says of one.
type shownPicture struct {
	Stem string
	Alt  string
}

// Pictures are those of the figure.
func (r record) Pictures() (shown []shownPicture) {
	for i, p := range r.Figure.Plots {
		shown = append(shown, shownPicture{r.Figure.picture(i), p.describe()})
	}
	return shown
}

// describe says what is drawn to who does not see it.
func (p *Plot) describe() string {
	var names []string
	for _, s := range p.Series {
		names = append(names, s.Name)
	}
	kind, over := "Lines", p.X.Label
	if p.Names != nil {
		kind, over = "Bars", strings.Join(p.Names, ", ")
	}
	return fmt.Sprintf("%s: %s of %s, over %s. Series: %s. The numbers are in the CSV file.", p.Title, kind, p.Y.Label, over, strings.Join(names, "; "))
}
