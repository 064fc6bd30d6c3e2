package main

import (
	"fmt"
	"os"
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

// scaled divides a number of a table by a unit.
func scaled(text string, unit float64) (string, error) {
	var x float64
	if _, err := fmt.Sscan(strings.ReplaceAll(text, ",", ""), &x); err != nil {
		return "", fmt.Errorf("%q is no number", text)
	}
	return fmt.Sprintf("%.0f", x/unit), nil
}
