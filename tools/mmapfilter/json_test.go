package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestJSONTable checks that the table in doc.go lists exactly the names in the objects of --json, in
// order, with the commands that print these objects.
func TestJSONTable(t *testing.T) {
	commands := make(map[string][]string) // by name
	for command, objects := range map[string][]any{
		"check": {answerJSON{}}, "expire": {expiry{}}, "grow": {growth{}}, "info": {statsJSON{}, setStatsJSON{}}, "recover": {recoveryJSON{}},
		"repair": {repair{}}, "size": {planJSON{}}, "verify": {report{}},
	} {
		for _, object := range objects {
			for _, name := range jsonNames(t, reflect.TypeOf(object)) {
				if !slices.Contains(commands[name], command) {
					commands[name] = append(commands[name], command)
				}
			}
		}
	}
	var want []string
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		slices.Sort(commands[name])
		want = append(want, name+": "+strings.Join(commands[name], " "))
	}
	doc, err := os.ReadFile("doc.go")
	noError(t, err)
	var got []string
	for _, row := range regexp.MustCompile(`(?m)^//\t(\S+) +(\S+(?: \S+)*)  +\S.*$`).FindAllStringSubmatch(string(doc), -1) {
		got = append(got, row[1]+": "+row[2])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table has\n%s\nbut the objects have\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// jsonNames returns the names in the objects of a type, including nested ones.
func jsonNames(t *testing.T, object reflect.Type) (names []string) {
	snake := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for i := range object.NumField() {
		field := object.Field(i)
		if !field.IsExported() && !field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-":
			continue
		case field.Anonymous && name == "":
			names = append(names, jsonNames(t, inner)...)
			continue
		case inner.Kind() == reflect.Struct:
			names = append(names, jsonNames(t, inner)...)
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
			names = append(names, jsonNames(t, inner.Elem())...)
		}
		if !snake.MatchString(name) {
			t.Errorf("%s.%s is called %q", object, field.Name, name)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// TestDescribeState checks the descriptions of states, also of states that scripts cannot produce, such
// as that of a writer that dies while info reads the file.
func TestDescribeState(t *testing.T) {
	for want, s := range map[string]mmapfilter.Stats{
		"sealed, generation 1":                       {State: "sealed", Generation: 1},
		"clean, its writer is running, generation 2": {State: "clean", Generation: 2, WriterAlive: true},
		"live, its writer is running, generation 3":  {State: "live", Generation: 3, WriterAlive: true},
		"live, its writer has died, generation 4":    {State: "live", Generation: 4},
	} {
		if got := describeState(s); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestSizeTable checks the table of size, for a build with a given time a key. Its numbers are those
// that size prints for each filter alone, in testdata/size.txt.
func TestSizeTable(t *testing.T) {
	var out bytes.Buffer
	noError(t, printSizes(&out, mmapfilter.Options{}, 20e-9))
	const want = "" +
		"  keys        5 %        1 %      0.1 %     0.01 %  building: memory       disk   time\n" +
		"    1M  940.0 KiB    1.2 MiB    1.6 MiB    2.1 MiB           7.6 MiB    7.6 MiB  0.0 s\n" +
		"   10M    8.8 MiB   11.7 MiB   16.1 MiB   20.3 MiB          76.3 MiB   76.3 MiB  0.2 s\n" +
		"  100M   88.1 MiB  116.9 MiB  160.7 MiB  203.0 MiB         256.0 MiB  762.9 MiB  2.0 s\n" +
		"    1B  880.3 MiB    1.1 GiB    1.6 GiB    2.0 GiB         256.0 MiB    7.5 GiB   20 s\n" +
		"   10B    8.6 GiB   11.4 GiB   15.7 GiB   19.8 GiB         256.0 MiB   74.5 GiB  200 s\n"
	if out.String() != want {
		t.Errorf("\n%s", &out)
	}
	if each, err := trialBuild(context.Background()); err != nil || !(each > 0) {
		t.Errorf("%g s a key, %v", each, err)
	}
}
