package report

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"path/filepath"
	"slices"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// order puts the table first, then the figures of the paper, and our own last. Other figures
// follow by name.
var order = []string{"table3", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8", "size"}

// A View is a question that a figure answers, and the picture of the answer.
type View struct {
	Question string
	Answer   string // a sentence
	Caption  string // how to read the picture, and where the paper is in it
	Picture  picture.Picture
}

// A Viewer makes the views of a figure, from its data alone.
type Viewer func(f *Figure) ([]View, error)

// ErrNoFigure means that there is no figure to make a page from.
var ErrNoFigure = errors.New("no figure has been written there")

// A section of the page is a figure and its views.
type section struct {
	record
	Views []shownView
}

// A shownView is a view as the page shows it.
type shownView struct {
	View
	ID  string // of its place on the page, and the stem of its picture
	SVG []byte
}

// Draw draws all figures that Write has written to dir. For each view it writes an SVG:
// NAME.svg, or NAME-1.svg, NAME-2.svg and so on if there are several. It also writes
// index.html, which shows them, and NAME.csv again. It needs only the data, NAME.json, and the
// viewers by figure name. It fails with ErrNoFigure or a *RecordError, and then leaves all
// existing files alone.
func Draw(dir string, viewers map[string]Viewer) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("%s: %w", dir, ErrNoFigure)
	}
	var sections []section
	for _, path := range paths {
		s, err := readSection(path, viewers)
		if err != nil {
			return &RecordError{path, err}
		}
		sections = append(sections, s)
	}
	slices.SortStableFunc(sections, func(a, b section) int { return rank(a.Figure.Name) - rank(b.Figure.Name) })
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, sections); err != nil {
		return err
	}
	for _, s := range sections {
		if err := writeFile(filepath.Join(dir, s.Figure.Name+".csv"), s.Figure.csv(s.Machine)); err != nil {
			return err
		}
		for _, v := range s.Views {
			if err := writeFile(filepath.Join(dir, v.ID+".svg"), v.SVG); err != nil {
				return err
			}
		}
	}
	return writeFile(filepath.Join(dir, "index.html"), page.Bytes())
}

func rank(name string) int {
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// readSection reads a figure and draws its views.
func readSection(path string, viewers map[string]Viewer) (s section, err error) {
	if s.record, err = readRecord(path); err != nil {
		return s, err
	}
	viewer := viewers[s.Figure.Name]
	if viewer == nil {
		return s, fmt.Errorf("there is no experiment %s", s.Figure.Name)
	}
	views, err := viewer(&s.Figure)
	if err != nil {
		return s, err
	}
	for i, v := range views {
		if v.Question == "" || v.Answer == "" || v.Caption == "" || v.Picture == nil {
			return s, fmt.Errorf("view %d lacks its question, answer, caption or picture", i+1)
		}
		shown := shownView{View: v, ID: s.Figure.Name}
		if len(views) > 1 {
			shown.ID += fmt.Sprintf("-%d", i+1)
		}
		if shown.SVG, err = v.Picture.SVG(); err != nil {
			return s, err
		}
		s.Views = append(s.Views, shown)
	}
	return s, nil
}
