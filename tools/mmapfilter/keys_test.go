package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// split splits data as a splitter should: as bytes.Split does, but without an empty record after the
// last separator.
func split(data []byte, separator byte) [][]byte {
	records := bytes.Split(data, []byte{separator})
	if last := len(records) - 1; len(records[last]) == 0 {
		records = records[:last]
	}
	return records
}

func collect(r records) (all [][]byte, err error) {
	for {
		record, number, err := r.next()
		if err != nil {
			return all, err
		}
		all = append(all, bytes.Clone(record))
		if number != len(all) {
			return all, errors.New("wrong number")
		}
	}
}

func equalRecords(a, b [][]byte) bool {
	return len(a) == len(b) && bytes.Equal(bytes.Join(a, []byte("|")), bytes.Join(b, []byte("|")))
}

// TestSplitter splits input that comes in pieces of several sizes. If an error cuts a record short, the
// splitter must not return it.
func TestSplitter(t *testing.T) {
	long := strings.Repeat("x", 1000)
	wraps := []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader}
	for _, text := range []string{
		"", "\n", "\n\n", "a", "a\n", "a\nb", "\na", "a\n\nb\n", long, long + "\n", "a\n" + long + "\nb", "a\r\nb\r\n",
	} {
		for _, wrap := range wraps {
			got, err := collect(newSplitter(wrap(strings.NewReader(text)), '\n', 0, 4))
			if want := split([]byte(text), '\n'); err != io.EOF || !equalRecords(got, want) {
				t.Errorf("%.20q: %q, %v, want %q", text, got, err, want)
			}
		}
	}
	for _, size := range []int{1, 3, 16, bufferBytes + 1} {
		for n := range 3 {
			data := bytes.Repeat([]byte("\x1f\x8b\n\x00\r"), n*size)[:n*size]
			for _, wrap := range wraps {
				got, err := collect(newSplitter(wrap(bytes.NewReader(data)), 0, size, 4))
				if err != io.EOF || len(got) != n || !bytes.Equal(bytes.Join(got, nil), data) {
					t.Errorf("%d records of %d bytes: got %d, %v", n, size, len(got), err)
				}
				got, err = collect(newSplitter(wrap(bytes.NewReader(append(data, 'x'))), 0, size, 4))
				short := size > 1 && strings.Contains(err.Error(), fmt.Sprintf("record %d, the last one, has 1 byte of", n+1))
				if !short && (size > 1 || err != io.EOF) || !bytes.HasPrefix(bytes.Join(got, nil), data) {
					t.Errorf("%d records of %d bytes and a byte: got %d, %v", n, size, len(got), err)
				}
			}
		}
	}
	broken := errors.New("broken")
	for size, text := range []string{"a\nb", "", "a\nb"} {
		r := io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))
		if got, err := collect(newSplitter(r, '\n', size, 4)); err != broken || len(got) != min(len(text), 1) {
			t.Errorf("%d: %q, %v", size, got, err)
		}
	}
	if _, err := collect(newSplitter(neverReader{}, '\n', 0, 4)); err != io.ErrNoProgress {
		t.Error(err)
	}
}

type neverReader struct{}

func (neverReader) Read([]byte) (int, error) { return 0, nil }

// readAll returns the keys of data in a format.
func readAll(t testing.TB, data []byte, f format) (keys [][]byte, err error) {
	sources, err := findSources(nil, nil, bytes.NewReader(data))
	noError(t, err)
	in := &input{format: f, sources: sources}
	for key, err := range in.keys(context.Background()) {
		if err != nil {
			return keys, err
		}
		keys = append(keys, bytes.Clone(key))
	}
	return keys, nil
}

// readRecords returns the records of data, up to the first one without a valid key.
func readRecords(t testing.TB, data []byte, f format) (records [][]byte) {
	sources, err := findSources(nil, nil, bytes.NewReader(data))
	noError(t, err)
	in := &input{format: f, sources: sources, whole: true}
	for _, err := range in.keys(context.Background()) {
		if err != nil {
			break
		}
		records = append(records, bytes.Clone(in.record))
	}
	return records
}

// FuzzKeys reads any data in any format, and must not panic. The keys must be those that a simple split
// of the data gives, for lines, records that end in zero bytes and records of a fixed size. A CSV record
// by itself must have the same key as in its file.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), "", uint16(4))
	f.Add([]byte("a\x00b"), "null", uint16(1))
	f.Add([]byte("00:1\nff\n"), `hex trim-cr delim=":" field=1`, uint16(0))
	f.Add([]byte("\ufeffa,b\n1,\"2\n3\"\n"), `csv column="b"`, uint16(0))
	f.Add([]byte("\x1f\x8b\x08\x00"), "csv column=2", uint16(0))
	f.Add([]byte("\x28\xb5\x2f\xfd\x00"), "", uint16(0))
	f.Add([]byte("\x1f\x8b\n\x00a"), "record-size=2", uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, note string, bufferSize uint16) {
		separator := byte('\n')
		format, err := parseNote(note)
		if format.null {
			separator = 0
		}
		want := split(data, separator)
		got, splitErr := collect(newSplitter(bytes.NewReader(data), separator, 0, int(bufferSize)+1))
		if splitErr != io.EOF || !equalRecords(got, want) {
			t.Fatalf("splitter: %q, %v, want %q", got, splitErr, want)
		}
		if err != nil {
			return
		}
		keys, err := readAll(t, data, format)
		packed := false
		for _, p := range packings {
			found, _ := startsWith(bufio.NewReader(bytes.NewReader(data)), p.magic, p.mask)
			packed = packed || found
		}
		if !packed && (note == "" || note == "null") && (err != nil || !equalRecords(keys, want)) {
			t.Fatalf("keys: %q, %v, want %q", keys, err, want)
		}
		if n := format.recordSize; n != 0 && !format.hex && !format.trimCR {
			want := slices.Collect(slices.Chunk(data, n))
			whole := len(data) / n
			if (err != nil) != (len(data)%n != 0) || !equalRecords(keys, want[:whole]) {
				t.Fatalf("keys: %q, %v, want %q", keys, err, want)
			}
		}
		records := readRecords(t, data, format)
		if len(records) != len(keys) {
			t.Fatalf("%d records, %d keys", len(records), len(keys))
		}
		if !format.csv {
			return
		}
		for i, record := range records {
			alone, err := csv.NewReader(bytes.NewReader(append(record, '\n'))).Read()
			if err != nil || !slices.ContainsFunc(alone, func(field string) bool { return keyOf(format, field) == string(keys[i]) }) {
				t.Fatalf("record %q, %v does not have the key %q", record, err, keys[i])
			}
		}
	})
}

// keyOf returns the key of a field.
func keyOf(f format, field string) string {
	key, _ := (&input{format: f}).key([]byte(field))
	return string(key)
}

// TestCSVRecordLimit checks that a quote that is not closed does not make a reader read all of a large
// file.
func TestCSVRecordLimit(t *testing.T) {
	tail := strings.Repeat(strings.Repeat("x", 1023)+"\n", maxCSVRecord>>10+bufferBytes>>10)
	for head, want := range map[string]string{
		"a,b\n\n1,\"2\n":               "record on line 3: longer than 64.0 MiB; a quote may not be closed",
		"\"":                           "record on line 1: longer than 64.0 MiB; a quote may not be closed",
		"a\n" + tail[:1023] + "\r\n\"": "record on line 3: longer than 64.0 MiB; a quote may not be closed",
		"a\n":                          "EOF", // many short records
	} {
		column, err := newCSVColumn(strings.NewReader(head+tail), extraction{csv: true, column: 1}, false)
		for err == nil {
			_, _, err = column.next()
		}
		if err.Error() != want {
			t.Errorf("%.10q: %v, want %s", head, err, want)
		}
	}
	_, err := newCSVColumn(strings.NewReader("a,\""+tail), extraction{csv: true, name: "b"}, false)
	if err == nil || !strings.HasPrefix(err.Error(), "record on line 1: longer") {
		t.Error(err)
	}
}

// TestCutShort checks that packed data that is cut off anywhere but between members gives an error, and
// no keys but its own.
func TestCutShort(t *testing.T) {
	for name, pack := range map[string]func([]byte) []byte{"gzip": packGzip, "zstd": packZstd} {
		first, second := pack([]byte("one\ntwo\n")), pack([]byte("three\nfour\n"))
		whole := append(bytes.Clone(first), second...)
		want := [][]byte{[]byte("one"), []byte("two"), []byte("three"), []byte("four")}
		for n := 5; n <= len(whole); n++ {
			keys, err := readAll(t, whole[:n], format{})
			between := n == len(first) || n == len(whole)
			if (err == nil) != between {
				t.Errorf("%s: %d of %d bytes: %v", name, n, len(whole), err)
			}
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || !equalRecords(keys, want[:len(keys)]) {
				t.Errorf("%s: %d of %d bytes: %q, %v", name, n, len(whole), keys, err)
			}
		}
	}
}

func packGzip(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func packZstd(data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(data, nil)
}

// sourcesOf writes files with the given data, and returns them as sources.
func sourcesOf(t *testing.T, files ...string) *sources {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for i, data := range files {
		name := filepath.Join(dir, string(rune('a'+i)))
		noError(t, os.WriteFile(name, []byte(data), 0o666))
		names = append(names, name)
	}
	s, err := findSources(nil, names, nil)
	noError(t, err)
	return s
}

// TestSourceBytes checks that the bytes read add up to the sizes of the files, packed or not. One file
// has a skippable frame before its data.
func TestSourceBytes(t *testing.T) {
	const skippable = "\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
	sources := sourcesOf(t, "a\nb\n", string(packGzip([]byte("c\n"))), "", skippable+string(packZstd([]byte("d\n"))))
	n := 0
	for _, err := range (&input{sources: sources}).keys(context.Background()) {
		noError(t, err)
		n++
	}
	if n != 4 || sources.bytes == 0 || sources.read.Load() != sources.bytes {
		t.Errorf("%d keys, %d bytes of %d", n, sources.read.Load(), sources.bytes)
	}
}

// TestEachEndsAtAnError checks that each does not call the function again once it has failed. The call
// that fails comes at the end of a file, and the block still has its keys.
func TestEachEndsAtAnError(t *testing.T) {
	var b block
	calls := 0
	bad := errors.New("no room")
	err := (&input{sources: sourcesOf(t, "a\nb\n", "c\n", "d\n")}).each(context.Background(), &b, func() error {
		if len(b.keys()) == 0 {
			return nil
		}
		if calls++; calls == 1 {
			return bad
		}
		return nil
	})
	if err != bad || calls != 1 || len(b.keys()) != 2 {
		t.Errorf("%v after %d calls, with %d keys", err, calls, len(b.keys()))
	}
}

func TestNote(t *testing.T) {
	for text, want := range map[string]format{
		"":                                {},
		"hex":                             {hex: true},
		`hex trim-cr delim=":" field=1`:   {hex: true, trimCR: true, extraction: extraction{delim: ":", field: 1}},
		`null delim="\t" field=12`:        {extraction: extraction{null: true, delim: "\t", field: 12}},
		"record-size=16":                  {extraction: extraction{recordSize: 16}},
		"hex record-size=1":               {hex: true, extraction: extraction{recordSize: 1}},
		`csv column=3`:                    {extraction: extraction{csv: true, column: 3}},
		`csv column="3"`:                  {extraction: extraction{csv: true, name: "3"}},
		`trim-cr csv column="a \"b\" =c"`: {trimCR: true, extraction: extraction{csv: true, name: `a "b" =c`}},
	} {
		got, err := parseNote(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		if got := want.note(); got != text {
			t.Errorf("%+v: %s, want %s", want, got, text)
		}
	}
	for _, text := range []string{
		" ", "hex ", " hex", "hex  null", "trim-cr hex", "hex hex", "HEX", "lower-case", "hex lower-case",
		"hex=1", `hex="x"`, "null=", "csv", "column=1", `field=1`, `delim=":"`, `delim=: field=1`, `delim="" field=1`,
		`delim=":" field=0`, `delim=":" field=01`, `delim=":" field=+1`, `delim=":" field="1"`, `delim=":"field=1`,
		`delim=":" field=99999999999999999999`, "delim=`:` field=1", `delim="\x3a" field=1`, `delim="\n" field=1`,
		`csv column=`, `csv column=""`, `csv column=0`, `csv column=-1`, `null csv column=1`, `csv column="a" column=1`,
		"record-size", "record-size=0", "record-size=-1", "record-size=01", "record-size=1048577", "null record-size=2",
		`record-size=2 delim=":" field=1`, "record-size=2 csv column=1", `record-size="2"`,
		"=", `="x"`, `delim="`,
	} {
		if f, err := parseNote(text); err == nil {
			t.Errorf("%s is accepted as %+v", text, f)
		}
	}
}

func FuzzParseNote(f *testing.F) {
	for _, seed := range []string{"", `hex trim-cr delim=":" field=1`, `csv column="\xff"`, "null csv column=1", "delim=`"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		format, err := parseNote(text)
		if err != nil {
			return
		}
		if got := format.note(); got != text {
			t.Fatalf("%q is read as the format of %q", text, got)
		}
		if err := format.validate(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
