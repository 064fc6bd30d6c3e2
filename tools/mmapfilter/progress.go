package main

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// A progress shows on a terminal how far long work is, and takes it away when
// the work is done. Where there is no terminal it does nothing.
type progress struct {
	out   *mpb.Progress // nil: nothing is shown
	bar   *mpb.Bar
	stage string
	total int64
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || !cwriter.IsTerminal(int(f.Fd())) {
		return new(progress)
	}
	return &progress{out: mpb.New(mpb.WithOutput(w))}
}

// show sets the bar to done of total, or where total is 0 to a count, which
// format writes. A stage or a total that is not that of the call before starts
// the bar over.
func (p *progress) show(stage string, done, total int64, format func(int64) string) {
	if p.out == nil {
		return
	}
	if p.bar == nil || stage != p.stage || total != p.total {
		p.clear()
		p.stage, p.total = stage, total
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
	return p.out.New(p.total, mpb.BarStyle().Lbound("|").Rbound("|"), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(name), mpb.AppendDecorators(decor.Percentage(), decor.Name(", "), decor.AverageETA(decor.ET_STYLE_GO), decor.Name(" left")))
}

func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar.Wait()
		p.bar = nil
	}
}

// close takes the bar away. Closing a second time does nothing.
func (p *progress) close() {
	if p.out != nil {
		p.clear()
		p.out.Wait()
		p.out = nil
	}
}
