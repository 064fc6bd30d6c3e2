package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// The table in README.md is between these lines.
const (
	readmeBegin = "<!-- table3: written by \"go -C tools/evaluate run . readme\" from results/table3.json -->\n"
	readmeEnd   = "<!-- end of table3 -->\n"
)

// writeReadme rewrites the table of a README from the data in a directory.
func writeReadme(path, results string) error {
	f, m, err := report.Read(results, "table3")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	replaced, err := withTable(string(text), f, m)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(replaced), 0o666)
}

// withTable returns a README with Table 3 between its two lines.
func withTable(readme string, f *report.Figure, m machine.Machine) (string, error) {
	before, rest, begun := strings.Cut(readme, readmeBegin)
	_, after, ended := strings.Cut(rest, readmeEnd)
	if !begun || !ended {
		return "", fmt.Errorf("it has no lines %q and %q", readmeBegin, readmeEnd)
	}
	if err := panels(f, 0, 1); err != nil {
		return "", err
	}
	t := figures.NewTable("", "filled", "million keys", "paper", "load", "bits per key", "paper", "rate", "paper", "million inserts a second", "paper", "keys missing")
	percent := func(number string) string {
		if number == "-" {
			return number
		}
		return number + " %"
	}
	for _, r := range f.Tables[0].Rows {
		if len(r) <= columnPaper {
			return "", fmt.Errorf("a row of table3 has %d cells", len(r))
		}
		said := parsePaper(r[columnPaper])
		t.Row(lookOf(r[0]).name, r[1], r[columnItems], dash(said.items, "%.2f"), percent(r[columnLoad]), r[columnBits], dash(said.bits, "%.2f"),
			percent(r[columnRate]), percent(dash(said.rate, "%.2f")), r[columnOne], dash(said.speed, "%.2f"), r[columnLost])
	}
	head := fmt.Sprintf("\n%s:\n\n    %s\n\n%s.\n\n", m.Source(), f.Command, strings.ToUpper(f.Run[:1])+f.Run[1:])
	return before + readmeBegin + head + t.String() + "\n" + readmeEnd + after, nil
}
