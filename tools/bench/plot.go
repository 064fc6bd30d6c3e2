package main

import (
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// plot draws times over sizes, both on logarithmic axes.
func (g *growthRun) plot(k layout.Kind, names []string, lines map[string][]float64) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%v, f=%d, 95 %% load", k, fingerprintBits)
	p.X.Label.Text, p.Y.Label.Text = "bytes of lines", "ns"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	var ticks []plot.Tick
	for _, size := range g.sizes {
		ticks = append(ticks, plot.Tick{Value: float64(size), Label: size.String()})
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	p.Legend.Top, p.Legend.Left = true, true
	for i, name := range names {
		points := make(plotter.XYs, len(g.sizes))
		for j, size := range g.sizes {
			points[j] = plotter.XY{X: float64(size), Y: lines[name][j]}
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i)
		marks.Color, marks.Shape = plotutil.Color(i), plotutil.Shape(i)
		p.Add(line, marks)
		p.Legend.Add(name, line, marks)
	}
	p.Add(plotter.NewGrid())
	p.Y.Max *= 30 // room for the legend above the lines
	file := fmt.Sprintf("%s-%v.svg", g.out, k)
	if err := p.Save(22*vg.Centimeter, 14*vg.Centimeter, file); err != nil {
		return fmt.Errorf("draw %s: %w", file, err)
	}
	g.printf("Drawn in %s, from %s.csv.\n", file, g.out)
	return nil
}
