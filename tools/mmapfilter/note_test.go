package main

import "testing"

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
