package main

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestJSONTable checks that the table of doc.go lists exactly the names in the objects of
// --json, in order, with the commands that print them.
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
		t.Errorf("the table has\n%s\nand the objects\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
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
