package main

import (
	"testing"

	"pgregory.net/rapid"
)

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

// anyFormat draws any format that the flags can ask for.
func anyFormat(t *rapid.T) format {
	f := format{hex: rapid.Bool().Draw(t, "hex"), trimCR: rapid.Bool().Draw(t, "trimCR")}
	bytes := rapid.SliceOfN(rapid.Byte(), 1, 20)
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 1:
		f.csv, f.column = true, rapid.IntMin(1).Draw(t, "column")
	case 2:
		f.csv, f.name = true, string(bytes.Draw(t, "name"))
	case 3:
		f.recordSize = rapid.IntRange(1, maxRecordSize).Draw(t, "record size")
	case 4:
		f.delim, f.field = string(bytes.Draw(t, "delim")), rapid.IntMin(1).Draw(t, "field")
		fallthrough
	default:
		f.null = rapid.Bool().Draw(t, "null")
	}
	return f
}

func TestNoteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyFormat(t)
		if want.validate() != nil {
			t.Skip("the delimiter holds the terminator")
		}
		got, err := parseNote(want.note())
		if err != nil || got != want {
			t.Fatalf("%s: %+v, %v, want %+v", want.note(), got, err, want)
		}
	})
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
