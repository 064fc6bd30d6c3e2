package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
)

// note writes a format as the text stored in a filter file: words in a fixed order, with names
// quoted as in Go, such as
//
//	hex trim-cr delim=":" field=1
//
// The zero format is the empty text.
func (f format) note() string {
	var words []string
	add := func(when bool, word string) {
		if when {
			words = append(words, word)
		}
	}
	add(f.hex, "hex")
	add(f.trimCR, "trim-cr")
	add(f.null, "null")
	add(f.recordSize != 0, "record-size="+strconv.Itoa(f.recordSize))
	add(f.delim != "", "delim="+strconv.Quote(f.delim))
	add(f.field != 0, "field="+strconv.Itoa(f.field))
	add(f.csv, "csv")
	add(f.column != 0, "column="+strconv.Itoa(f.column))
	add(f.name != "", "column="+strconv.Quote(f.name))
	add(f.served != "", "served="+f.served)
	return strings.Join(words, " ")
}

// newFormat returns the format of a new filter or set.
func newFormat(flags *formatFlags) (format, error) {
	f, err := flags.format(format{})
	if err != nil {
		return format{}, err
	}
	return f, checkNote(f.note())
}

// checkNote returns an error if the note of a format is too long to be stored.
func checkNote(note string) error {
	if n := len(note); n > layout.NormalisationBytes {
		return fmt.Errorf("a filter has only %d bytes to record how keys are read; --delim and --column need %d", layout.NormalisationBytes, n)
	}
	return nil
}

// parseNote is the inverse of note. It accepts only texts that note can have written, and does
// not guess what other texts mean.
func parseNote(text string) (format, error) {
	var f format
	for rest := text; rest != ""; {
		var word, value string
		word, value, rest = cutWord(rest)
		// An unknown word or a bad value leaves f unchanged. The comparison with text below
		// catches that.
		switch word {
		case "hex":
			f.hex = true
		case "trim-cr":
			f.trimCR = true
		case "null":
			f.null = true
		case "record-size":
			f.recordSize, _ = strconv.Atoi(value)
		case "delim":
			f.delim, _ = strconv.Unquote(value)
		case "field":
			f.field, _ = strconv.Atoi(value)
		case "csv":
			f.csv = true
		case "column":
			f.column, _ = strconv.Atoi(value)
			f.name, _ = strconv.Unquote(value)
		case "served":
			f.served = value
		}
	}
	if f.note() != text {
		return format{}, fmt.Errorf("%q is a way to read keys that this program does not know", text)
	}
	return f, f.validate()
}

// cutWord cuts a word off a note, with the value that may follow it: a quoted string, or
// anything up to a space. It always shortens a text that is not empty.
func cutWord(text string) (word, value, rest string) {
	end := strings.IndexAny(text, " =")
	if end < 0 {
		return text, "", ""
	}
	word, rest = text[:end], text[end+1:]
	if text[end] == ' ' {
		return word, "", rest
	}
	if quoted, err := strconv.QuotedPrefix(rest); err == nil {
		return word, quoted, strings.TrimPrefix(rest[len(quoted):], " ")
	}
	value, rest, _ = strings.Cut(rest, " ")
	return word, value, rest
}

// describeNote returns a note as it is, or says what an empty one means.
func describeNote(note string) string {
	if note == "" {
		return "one key a line"
	}
	return note
}

// recordedFormat returns the format of the note that a filter records, or the zero format with --plain.
func recordedFormat(path, note string, plain bool) (format, error) {
	if plain {
		return format{}, nil
	}
	recorded, err := parseNote(note)
	if err != nil {
		return format{}, fmt.Errorf("%s: %w; with --plain, keys are read as the other flags say", path, err)
	}
	return recorded, nil
}

// read sets the format of an input: as the filter at a path records it in its note, or as the flags
// say. It returns what the filter records.
func (f *formatFlags) read(in *input, path, note string, plain bool) (recorded format, err error) {
	if recorded, err = recordedFormat(path, note, plain); err == nil {
		in.format, err = f.format(recorded)
	}
	return recorded, err
}

// explainMisfit adds to a misfit that the format comes from the filter, unless the flags have set
// the format. It returns other errors as they are.
func explainMisfit(err error, used, recorded format, path string) error {
	var m *misfit
	if !errors.As(err, &m) {
		return err
	}
	if m.hex && recorded.hex || !m.hex && used.extraction == recorded.extraction {
		file := &fileError{path, err}
		errors.As(err, &file)
		return &fileError{file.path, fmt.Errorf("%w (as recorded in %s; --plain reads lines)", file.error, path)}
	}
	return err
}
