package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"
)

// The figures of README.md are between these lines. It has one of each.
const (
	readmeBegin = "## How fast\n"
	readmeEnd   = "All tables, with their machines and commands: "
)

// readmeText is the template of that text. "cell" gives a cell of a table in RESULTS.md, by its
// block, the first cells of its row, and the head of its column.
const readmeText = `
Measured on {{machine "space" "peers" "lookup" "api" "build" "stores"}}, {{dates "space" "peers" "lookup" "api" "build" "stores"}}: files on ext4, default options. Trust ratios more than numbers. The commands below are in the order of the rows; the last one is for three:

| | |
|---|---|
| space per key | {{cell "space" "mmapfilter, rate 1 %" "bits a key"}} bits at {{cell "space" "mmapfilter, rate 1 %" "rate measured"}}; bits-and-blooms {{cell "space" "bits-and-blooms/bloom v3, for 1 %" "bits a key"}} at {{cell "space" "bits-and-blooms/bloom v3, for 1 %" "rate measured"}}; binary fuse {{cell "space" "FastFilter/xorfilter, binary fuse 8, xxh3" "bits a key"}} at {{cell "space" "FastFilter/xorfilter, binary fuse 8, xxh3" "rate measured"}} |
| one lookup, {{cell "peers" "mmapfilter, rate 1 %" "keys it has"}} keys | {{cell "peers" "mmapfilter, rate 1 %" "ns absent"}} ns; times that: blobloom {{cell "peers" "greatroar/blobloom, xxh3" "absent over ours"}}, binary fuse {{cell "peers" "FastFilter/xorfilter, binary fuse 8, xxh3" "absent over ours"}}, seiflotfy/cuckoofilter {{cell "peers" "seiflotfy/cuckoofilter, f=8, b=4" "absent over ours"}}, Pebble's bloom {{cell "peers" "Pebble's bloom, 10 bits, parts of a million keys" "absent over ours"}}, bits-and-blooms {{cell "peers" "bits-and-blooms/bloom v3" "absent over ours"}} |
| one key of 1 GiB, in a batch of 1,024 | {{cell "lookup" "ContainsBatch|1024|absent" "ns"}} ns, {{cell "lookup" "ContainsBatch|1024|absent" "over the limit"}} times a random read of the same memory; by itself {{cell "lookup" "Contains|1|absent" "over the limit"}} times |
| open and first answer, 4 GiB | {{micro (cell "api" "MiB=4096" "ns/op")}} µs |
| build, 100 million keys, both cores | {{millions (cell "build" "Build, mmapfilter, rate 1 %" "keys a second" "100,000,000 keys")}} million keys per second |
| absent key, cold Pebble, 2 million keys | {{cell "stores" "guard|absent" "µs, 50 %" "pebble, cold: 20,000 reads"}} µs and {{cell "stores" "guard|absent" "bytes a read from the disk" "pebble, cold: 20,000 reads"}} bytes read behind a guard; alone {{cell "stores" "alone|absent" "µs, 50 %" "pebble, cold: 20,000 reads"}} and {{cell "stores" "alone|absent" "bytes a read from the disk" "pebble, cold: 20,000 reads"}}; own Bloom filter {{cell "stores" "its own Bloom filter|absent" "µs, 50 %" "pebble, cold: 20,000 reads"}} and {{cell "stores" "its own Bloom filter|absent" "bytes a read from the disk" "pebble, cold: 20,000 reads"}} |
| absent key, cold bbolt, 2 million keys | {{cell "stores" "guard|absent" "µs, 50 %" "bbolt, cold: 20,000 reads"}} µs and {{cell "stores" "guard|absent" "bytes a read from the disk" "bbolt, cold: 20,000 reads"}} bytes read behind a guard; alone {{cell "stores" "alone|absent" "µs, 50 %" "bbolt, cold: 20,000 reads"}} and {{cell "stores" "alone|absent" "bytes a read from the disk" "bbolt, cold: 20,000 reads"}} |
| absent key, cold Badger, 2 million keys | {{cell "stores" "guard|absent" "µs, 50 %" "badger, cold: 20,000 reads"}} µs and {{cell "stores" "guard|absent" "bytes a read from the disk" "badger, cold: 20,000 reads"}} bytes read behind a guard; alone {{cell "stores" "alone|absent" "µs, 50 %" "badger, cold: 20,000 reads"}} and {{cell "stores" "alone|absent" "bytes a read from the disk" "badger, cold: 20,000 reads"}}; own Bloom filter {{cell "stores" "its own Bloom filter|absent" "µs, 50 %" "badger, cold: 20,000 reads"}} and {{cell "stores" "its own Bloom filter|absent" "bytes a read from the disk" "badger, cold: 20,000 reads"}} |

<!-- readme: go -C tools/bench: step bench, whose tests run all of tools/bench with little to do -->
<!-- readme: go test ./mmapfilter: step bench, which runs every benchmark of ./mmapfilter once -->

{{range commands "space" "peers" "lookup" "api" "build" "stores"}}    {{.}}
{{end}}
`

// writeReadme rewrites the figures of a README from the blocks of RESULTS.md.
func writeReadme(path string, parts []section) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	replaced, err := withFigures(string(text), parts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(replaced), 0o666)
}

// withFigures returns a README with new figures.
func withFigures(readme string, parts []section) (string, error) {
	before, rest, begun := strings.Cut(readme, readmeBegin)
	_, after, ended := strings.Cut(rest, readmeEnd)
	if !begun || !ended {
		return "", fmt.Errorf("it has no lines that begin with %q and %q", readmeBegin, readmeEnd)
	}
	p := page(parts)
	t, err := template.New("README").Funcs(template.FuncMap{
		"cell": p.cell, "machine": p.machine, "dates": p.dates, "commands": p.commands,
		"micro":    func(ns string) (string, error) { return scaled(ns, 1e3) },
		"millions": func(n string) (string, error) { return scaled(n, 1e6) },
	}).Parse(readmeText)
	if err != nil {
		return "", err
	}
	var figures strings.Builder
	if err := t.Execute(&figures, nil); err != nil {
		return "", err
	}
	return before + readmeBegin + figures.String() + readmeEnd + after, nil
}

// A page is RESULTS.md in parts.
type page []section

func (p page) block(name string) (section, error) {
	for _, b := range p {
		if b.name == name {
			return b, nil
		}
	}
	return section{}, fmt.Errorf("there is no block %q", name)
}

// cell returns a cell of the first table that has the row and the column. If head is given, the
// head of the table must begin with it.
func (p page) cell(block, row, column string, head ...string) (string, error) {
	b, err := p.block(block)
	if err != nil {
		return "", err
	}
	var columns []string
	for i, line := range b.lines {
		cells := tableCells(line)
		if cells == nil {
			columns = nil
			continue
		}
		if columns == nil {
			columns = cells
			continue
		}
		at := slices.Index(columns, column)
		begins := strings.Split(row, "|")
		if at < 0 || len(head) > 0 && columns[0] != head[0] || len(cells) < len(begins) || !slices.Equal(cells[:len(begins)], begins) {
			continue
		}
		if at >= len(cells) || cells[at] == "" {
			return "", fmt.Errorf("line %d of block %s has no cell %q", i+1, block, column)
		}
		return cells[at], nil
	}
	return "", fmt.Errorf("block %s has no row %q with a column %q", block, row, column)
}

// tableCells returns the cells of a line of a table, without asterisks for bold; or nil for any
// other line.
func tableCells(line string) []string {
	inner, ok := strings.CutPrefix(line, "|")
	if !ok {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(strings.TrimRight(inner, " "), "|"), "|")
	for i, c := range cells {
		cells[i] = strings.Trim(strings.TrimSpace(c), "*")
	}
	return cells
}

// head returns the parts of the line of a block that says when and on what it was measured.
func (p page) head(block string) ([]string, error) {
	b, err := p.block(block)
	if err != nil {
		return nil, err
	}
	for _, line := range b.lines {
		if date, rest, ok := strings.Cut(line, ", "); ok && len(date) == len("2026-01-31") && strings.Contains(rest, "; commit ") {
			return append([]string{date}, strings.Split(rest, "; ")...), nil
		}
	}
	return nil, fmt.Errorf("block %s does not say what it was measured on", block)
}

// machine returns the processor, system and Go version of blocks, which must have the same.
func (p page) machine(blocks ...string) (machine string, err error) {
	for i, block := range blocks {
		head, err := p.head(block)
		if err != nil {
			return "", err
		}
		if len(head) < 6 {
			return "", errors.New("the head of block " + block + " has too few parts")
		}
		switch of := strings.Join([]string{head[1], head[3], head[4]}, ", "); {
		case i == 0:
			machine = of
		case of != machine:
			return "", fmt.Errorf("block %s was measured on %s, and block %s on %s", blocks[0], machine, block, of)
		}
	}
	return machine, nil
}

// dates returns the first and the last date of blocks.
func (p page) dates(blocks ...string) (string, error) {
	var all []string
	for _, block := range blocks {
		head, err := p.head(block)
		if err != nil {
			return "", err
		}
		all = append(all, head[0])
	}
	first, last := slices.Min(all), slices.Max(all)
	if first == last {
		return "on " + first, nil
	}
	return "from " + first + " to " + last, nil
}

// commands returns the commands of some blocks.
func (p page) commands(blocks ...string) (all []string, err error) {
	for _, name := range blocks {
		b, err := p.block(name)
		if err != nil {
			return nil, err
		}
		all = append(all, b.command)
	}
	return all, nil
}

// scaled divides a number of a table by a unit.
func scaled(text string, unit float64) (string, error) {
	var x float64
	if _, err := fmt.Sscan(strings.ReplaceAll(text, ",", ""), &x); err != nil {
		return "", fmt.Errorf("%q is no number", text)
	}
	return fmt.Sprintf("%.0f", x/unit), nil
}
