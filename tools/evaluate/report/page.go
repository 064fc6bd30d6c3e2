package report

import (
	"errors"
	"fmt"
	"html"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// pageName is that of the page. A site that shows a directory shows it.
const pageName = "README.md"

const pageHead = `# mmapfilter beside the cuckoo filter paper

Bin Fan, David G. Andersen, Michael Kaminsky and Michael D. Mitzenmacher evaluated their filter in "Cuckoo Filter:
Practically Better Than Bloom", CoNEXT 2014. This page runs their experiments again. The layouts packed and semisorted are
the paper's CF and ss-CF; compact is our own, and the default. What it does at other rates is in
[tools/bench/RESULTS.md](../../bench/RESULTS.md).

The paper's filters are tables in the memory of one process. Ours are files that survive crashes. Tables, commands and
machines are folded away under the last picture of each figure.
`

// order puts the table first, then the figures of the paper. Others
// follow by name.
var order = []string{"table3", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8"}

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
// README.md, which shows them, and NAME.csv again. It needs only the data, NAME.json, and the
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
	var page strings.Builder
	page.WriteString(pageHead)
	for _, s := range sections {
		s.print(&page)
		if err := writeFile(filepath.Join(dir, s.Figure.Name+".csv"), s.Figure.csv(s.Machine)); err != nil {
			return err
		}
		for _, v := range s.Views {
			if err := writeFile(filepath.Join(dir, v.ID+".svg"), v.SVG); err != nil {
				return err
			}
		}
	}
	return writeFile(filepath.Join(dir, pageName), []byte(page.String()))
}

// print writes a section in Markdown.
func (s *section) print(page *strings.Builder) {
	say := func(format string, texts ...any) {
		for i, text := range texts {
			texts[i] = html.EscapeString(fmt.Sprint(text))
		}
		fmt.Fprintf(page, "\n"+format+"\n", texts...)
	}
	for _, v := range s.Views {
		say("## %s", v.Question)
		say("%s", v.Answer)
		say(`<img src="%s.svg" width="640" alt="%s">`, v.ID, v.Picture.Describe())
		say("%s", v.Caption)
	}
	f := s.Figure
	say("<details>\n<summary>%s: tables, and how it was measured</summary>", f.Title)
	say("- The paper: %s\n- Here: %s\n- What was run: %s", f.Paper, f.Ours, f.Run)
	say("`%s`", f.Command)
	say("%s; %s s. All numbers: [%s.csv](%[3]s.csv).", s.Machine.Source(), fmt.Sprintf("%.0f", f.Seconds), f.Name)
	for _, note := range f.Notes {
		say("%s", note)
	}
	for _, t := range f.Tables {
		say("%s:", t.Caption)
		table := figures.NewTable(t.Header...)
		for _, r := range t.Rows {
			table.Row(r...)
		}
		fmt.Fprintf(page, "\n%s", html.EscapeString(table.String()))
	}
	say("</details>")
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
