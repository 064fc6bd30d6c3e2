package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A format says how keys are made from files: which part of a file is a key, and what is done to
// it. The zero value takes each line as a key, unchanged.
type format struct {
	extraction
	hex    bool // a key is written as hex digits
	trimCR bool // drop one carriage return at the end of a key

	served string // the settings of serve for the filter; they do not say how keys are read
}

// An extraction says which parts of a file are keys.
type extraction struct {
	null       bool   // records end in a zero byte instead of a newline
	recordSize int    // bytes in a record without a terminator; 0 if records have one
	delim      string // separator of fields; if empty, a key is a whole record
	field      int    // number of the field that is the key, from 1
	csv        bool   // records are CSV
	column     int    // number of the column that is the key, from 1; 0 for the column called name
	name       string // name of the key column in the first record of a file
}

// validate reports settings that cannot be used together, in terms of the flags.
func (f format) validate() error {
	terminator := "\n"
	if f.null {
		terminator = "\x00"
	}
	named := f.column != 0 || f.name != ""
	switch {
	case f.recordSize != 0 && (f.null || f.csv || named || f.delim != "" || f.field != 0):
		return errors.New("--record-size cannot be used with -0, --delim, --field, --csv or --column")
	case f.recordSize < 0 || f.recordSize > maxRecordSize:
		return fmt.Errorf("--record-size must be between 1 and %d bytes", maxRecordSize)
	case f.csv && f.null:
		return errors.New("--csv and -0 cannot be used together")
	case f.csv && (f.delim != "" || f.field != 0):
		return errors.New("--csv and --delim cannot be used together")
	case f.csv && !named:
		return errors.New("--csv needs --column")
	case !f.csv && named:
		return errors.New("--column needs --csv")
	case f.field < 0 || f.column < 0:
		return errors.New("fields and columns are counted from 1")
	case f.delim == "" && f.field != 0:
		return errors.New("--field needs --delim")
	case f.delim != "" && f.field == 0:
		return errors.New("--delim needs --field")
	case strings.Contains(f.delim, terminator):
		return errors.New("--delim contains the byte that ends a record")
	}
	return nil
}

// maxRecordSize bounds the record size of a format, because a whole record is held in memory.
const maxRecordSize = 1 << 20

// keysHelp says where keys come from.
const keysHelp = "Keys are the lines of each FILE or of standard input; .gz and .zst are unpacked."

// formatFlags holds the flags for keys and their format.
type formatFlags struct {
	flags         *pflag.FlagSet
	given         format
	delim, column string
	keys          []string // from the command line
}

// addFormatFlags adds the flags of a command that reads keys from files and from its command
// line.
func addFormatFlags(flags *pflag.FlagSet) *formatFlags {
	f := addFileFormatFlags(flags)
	// Not a slice flag, which would split keys at commas.
	flags.StringArrayVarP(&f.keys, "key", "e", nil, "use `KEY` and do not read standard input; repeatable")
	return f
}

// addFileFormatFlags adds the flags that say how keys are made from files.
func addFileFormatFlags(flags *pflag.FlagSet) *formatFlags {
	f := &formatFlags{flags: flags}
	flags.BoolVarP(&f.given.null, "null", "0", false, "keys end in a zero byte, not a newline")
	flags.StringVarP(&f.delim, "delim", "d", "", `fields are separated by `+"`S`"+` (\t is a tab), as in cut(1)`)
	shorthand, same := "f", ""
	if flags.ShorthandLookup(shorthand) != nil {
		shorthand, same = "", "; with -d, -f N means the same"
	}
	flags.IntVarP(&f.given.field, "field", shorthand, 0, "the key is field `N`"+same)
	flags.BoolVar(&f.given.csv, "csv", false, "records are CSV; --column says which column is the key")
	flags.StringVar(&f.column, "column", "", "the key is column `C` of CSV, a number or a name")
	flags.IntVar(&f.given.recordSize, "record-size", 0, "records are `N` bytes each, with nothing in between")
	flags.BoolVar(&f.given.hex, "hex", false, "keys are bytes written as hex digits")
	flags.BoolVar(&f.given.trimCR, "trim-cr", false, "drop a carriage return at the end of a key")
	return f
}

// addPlainFlag adds --plain, for a command that otherwise reads keys as recorded in a filter.
func addPlainFlag(flags *pflag.FlagSet, plain *bool) {
	flags.BoolVar(plain, "plain", false, "ignore the settings that the filter records")
}

// sources returns the keys of -e and the named files. Without either, keys come from standard
// input.
//
// If an argument is not a file, it may have been meant as a key: the error says how to give
// keys.
func (f *formatFlags) sources(names []string, stdin io.Reader) (*sources, error) {
	s, err := findSources(f.keys, names, stdin)
	if err != nil || f.flags.Lookup("key") == nil {
		return s, err
	}
	for i := range s.list {
		if src := &s.list[i]; errors.Is(src.err, fs.ErrNotExist) {
			src.err = &fileError{src.name, errors.New("no such file (arguments are files of keys; use -e or standard input for keys)")}
		}
	}
	return s, nil
}

// format returns the format that the flags ask for; settings without a flag come from the filter. A
// flag that says which part of a file is a key replaces all recorded settings of this kind, since
// it is about the files of this run. A flag that says what is done to a key replaces only its own
// setting, since the other settings were applied to the keys in the filter too.
func (f *formatFlags) format(recorded format) (format, error) {
	if f.flags.Changed("delim") {
		if f.delim == "" {
			return format{}, errors.New("--delim is empty")
		}
		f.given.delim = f.delim
		if f.delim == `\t` { // a tab is hard to type in most shells
			f.given.delim = "\t"
		}
	}
	if f.flags.Changed("field") && f.given.field < 1 {
		return format{}, errors.New("--field is counted from 1")
	}
	if f.flags.Changed("record-size") && f.given.recordSize < 1 {
		return format{}, fmt.Errorf("--record-size must be between 1 and %d bytes", maxRecordSize)
	}
	if f.flags.Changed("column") {
		if err := f.setColumn(); err != nil {
			return format{}, err
		}
	}
	result := recorded
	for _, name := range []string{"null", "record-size", "delim", "field", "csv", "column"} {
		if f.flags.Changed(name) {
			result.extraction = f.given.extraction
		}
	}
	if f.flags.Changed("hex") {
		result.hex = f.given.hex
	}
	if f.flags.Changed("trim-cr") {
		result.trimCR = f.given.trimCR
	}
	return result, result.validate()
}

// input returns the keys of -e and of the named files. The caller sets the format. A missing
// file or a directory is an error.
func (f *formatFlags) input(names []string, stdin io.Reader) (*input, error) {
	s, err := f.sources(names, stdin)
	if err == nil {
		err = s.err()
	}
	return &input{sources: s}, err
}

// setColumn sets the column by number or by name.
func (f *formatFlags) setColumn() error {
	if f.column == "" {
		return errors.New("--column is empty")
	}
	if strings.Trim(f.column, "0123456789") != "" {
		f.given.name = f.column
		return nil
	}
	n, err := strconv.Atoi(f.column)
	if err != nil || n < 1 {
		return errors.New("--column is counted from 1")
	}
	f.given.column = n
	return nil
}
