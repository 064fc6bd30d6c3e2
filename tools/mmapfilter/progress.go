package main

import (
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressDelay is how long work takes before its progress is shown.
const progressDelay = time.Second / 2

// A progress shows on a terminal how far long work has got, and disappears when the work is
// done. Without a terminal it does nothing.
type progress struct {
	terminal io.Writer // nil if nothing is ever shown
	start    time.Time // start of the work

	out        *mpb.Progress // nil while nothing is shown
	bar        *mpb.Bar
	stage      string
	stageStart time.Time
	total      int64
}

// newProgress makes a progress on w if w is a terminal.
func newProgress(w io.Writer) *progress {
	if !isTerminal(w) || os.Getenv("TERM") == "dumb" {
		return new(progress)
	}
	return &progress{terminal: behind(w).(io.Writer), start: time.Now()}
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(rw any) bool {
	f, ok := behind(rw).(*os.File)
	return ok && cwriter.IsTerminal(int(f.Fd()))
}

// show sets the bar to done of total or, if total is 0, to a count that format writes. A new
// stage or total starts the bar over.
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
	// If the terminal has shown ^C since the bar was drawn, the cursor is right of it.
	name := decor.Name("\r" + p.stage + " ")
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

// ofVerify returns the function that shows the progress of verification.
func (p *progress) ofVerify() func(done, total int64) {
	return func(done, total int64) { p.show("verifying", done, total, nil) }
}

// hide removes the bar until the next call of show, so that something else can be written to the
// terminal.
func (p *progress) hide() {
	if p.out != nil {
		p.clear()
		p.out.Wait()
		p.out = nil
		io.WriteString(p.terminal, "\r") // as in newBar
	}
}

// close removes the bar for good. Closing again does nothing.
func (p *progress) close() {
	p.hide()
	p.terminal = nil
}
