package main

import (
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressDelay is how long work takes before it is shown how far it is.
const progressDelay = time.Second / 2

// A progress shows on a terminal how far long work is, and takes it away when
// the work is done. Where there is no terminal it does nothing.
type progress struct {
	terminal io.Writer // nil: nothing is shown
	start    time.Time // of the work

	out        *mpb.Progress // nil: nothing is shown for now
	bar        *mpb.Bar
	stage      string
	stageStart time.Time
	total      int64
}

// newProgress makes a progress on w if that is a terminal.
func newProgress(w io.Writer) *progress {
	if !isTerminal(w) || os.Getenv("TERM") == "dumb" {
		return new(progress)
	}
	return &progress{terminal: w, start: time.Now()}
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(rw any) bool {
	f, ok := rw.(*os.File)
	return ok && cwriter.IsTerminal(int(f.Fd()))
}

// show sets the bar to done of total, or where total is 0 to a count, which
// format writes. A stage or a total that is not that of the call before starts
// the bar over.
func (p *progress) show(stage string, done, total int64, format func(int64) string) {
	if p.terminal == nil {
		return
	}
	now := time.Now()
	if stage != p.stage || total != p.total {
		p.clear()
		p.stage, p.stageStart, p.total = stage, now, total
	}
	if now.Sub(p.start) < progressDelay {
		return
	}
	if p.out == nil {
		p.out = mpb.New(mpb.WithOutput(p.terminal))
	}
	if p.bar == nil {
		p.bar = p.newBar(format)
	}
	p.bar.SetCurrent(done)
}

func (p *progress) newBar(format func(int64) string) *mpb.Bar {
	name := decor.Name(p.stage + " ")
	if p.total == 0 {
		count := decor.Any(func(s decor.Statistics) string { return format(s.Current) })
		return p.out.New(0, mpb.NopStyle(), mpb.BarRemoveOnComplete(), mpb.PrependDecorators(name, count))
	}
	left := decor.NewAverageETA(decor.ET_STYLE_GO, p.stageStart, nil)
	return p.out.New(p.total, mpb.BarStyle().Lbound("|").Rbound("|"), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(name), mpb.AppendDecorators(decor.Percentage(), decor.Name(", "), left, decor.Name(" left")))
}

func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar.Wait()
		p.bar = nil
	}
}

// hide takes the bar away until the next call of show, so that something else
// can be written to the terminal.
func (p *progress) hide() {
	if p.out != nil {
		p.clear()
		p.out.Wait()
		p.out = nil
	}
}

// close takes the bar away for good. Closing a second time does nothing.
func (p *progress) close() {
	p.hide()
	p.terminal = nil
}
