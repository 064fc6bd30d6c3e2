package filterprom

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

var quoted = regexp.MustCompile("`([^`]+)`")

// A row of a table of OPERATIONS.md has fields of Stats, and the metrics that have their values.
type row struct{ fields, metrics []string }

// readRows reads the four tables of fields in OPERATIONS.md, in their order.
func readRows(t *testing.T) (filter, guard, set, replica []row) {
	t.Helper()
	page, err := os.ReadFile("../OPERATIONS.md")
	must(t, err)
	_, numbers, ok := strings.Cut(string(page), "\n## Numbers\n")
	tables := strings.Split(numbers, "\n| field | metric | worry when |\n")
	if !ok || len(tables) != 5 {
		t.Fatalf("there are %d tables of fields with their metrics, not four", len(tables)-1)
	}
	read := func(table string) (rows []row) {
		table, _, _ = strings.Cut(table, "\n\n")
		for line := range strings.Lines(table) {
			cells := strings.Split(line, "|")
			rows = append(rows, row{words(cells[1]), words(cells[2])})
		}
		return rows
	}
	return read(tables[1]), read(tables[2]), read(tables[3]), read(tables[4])
}

// words returns the words in backquotes.
func words(cell string) (words []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		words = append(words, m[1])
	}
	return words
}

// fill gives each field of a struct a different value, and returns the values by the names of the
// fields. Texts and booleans have the value 1, which no other field has.
func fill(v reflect.Value, values map[string]float64) {
	for i := range v.NumField() {
		field, name, n := v.Field(i), v.Type().Field(i).Name, float64(len(values)+2)
		switch {
		case !v.Type().Field(i).IsExported():
			continue
		case field.Kind() == reflect.Struct:
			if v.Type().Field(i).Anonymous {
				fill(field, values)
				continue
			}
			fill(field, map[string]float64{})
			n = 1
		case field.Kind() == reflect.Bool:
			field.SetBool(true)
			n = 1
		case field.Kind() == reflect.String:
			field.SetString("text of " + name)
			n = 1
		default:
			field.Set(reflect.ValueOf(n).Convert(field.Type()))
		}
		if field.Type() == reflect.TypeFor[time.Duration]() {
			field.SetInt(int64(n) * int64(time.Second))
		}
		values[name] = n
	}
}

// TestOperations checks that OPERATIONS.md has each metric of a collector beside the field with its
// value, and no other metrics.
func TestOperations(t *testing.T) {
	filter, ofGuards, set, ofReplicas := readRows(t)
	var f mmapfilter.Stats
	var s sets.Stats
	var g guard.Stats
	var r replica.Stats
	for _, c := range []struct {
		name        string
		stats       any // a pointer
		metrics     func() []metric
		rows, other []row // of the metrics; of metrics that another table may have instead
	}{
		{"filters", &f, func() []metric { return ofFilter(f, true) }, filter, nil},
		{"sets", &s, func() []metric { return ofSet(s) }, set, filter},
		{"guards", &g, func() []metric { return ofGuard(g) }, ofGuards, nil},
		{"replicas", &r, func() []metric { return ofReplica(r) }, ofReplicas, nil},
	} {
		values, listed := map[string]float64{}, map[string]bool{}
		fill(reflect.ValueOf(c.stats).Elem(), values)
		metrics := map[string]metric{}
		for _, m := range c.metrics() {
			metrics[m.name] = m
		}
		for _, r := range slices.Concat(c.rows, c.other) {
			for _, name := range r.metrics {
				m, ok := metrics[name]
				is := func(field string) bool {
					v, known := values[field]
					return known && v == m.value && (m.texts == nil || m.texts[0] == "text of "+field)
				}
				if ok && !listed[name] && !slices.ContainsFunc(r.fields, is) {
					t.Errorf("%s: %s is %v %q, which is none of %v", c.name, name, m.value, m.texts, r.fields)
				}
				listed[name] = listed[name] || ok
			}
		}
		for _, name := range slices.Sorted(maps.Keys(metrics)) {
			if !listed[name] {
				t.Errorf("%s: OPERATIONS.md does not have %s", c.name, name)
			}
		}
		for _, r := range c.rows {
			for _, name := range r.metrics {
				if !listed[name] {
					t.Errorf("%s: OPERATIONS.md has %s, which is not sent", c.name, name)
				}
			}
		}
	}
}

// TestRules checks that the rules for alerts in OPERATIONS.md name only metrics that exist.
func TestRules(t *testing.T) {
	page, err := os.ReadFile("../OPERATIONS.md")
	must(t, err)
	_, rules, _ := strings.Cut(string(page), "\n```yaml\n")
	rules, _, ok := strings.Cut(rules, "\n```\n")
	if !ok {
		t.Fatal("there are no rules")
	}
	known := map[string]bool{}
	for kind, like := range map[string][]metric{"filter": ofFilter(mmapfilter.Stats{}, true), "set": ofSet(sets.Stats{Opened: 1}), "guard": ofGuard(guard.Stats{}), "replica": ofReplica(replica.Stats{})} {
		for _, m := range append(like, metric{name: "up"}, metric{name: "error"}) {
			known["mmapfilter_"+kind+"_"+m.name] = true
		}
	}
	names := regexp.MustCompile(`\bmmapfilter_\w+`).FindAllString(rules, -1)
	for _, name := range names {
		if !known[name] {
			t.Errorf("a rule names %s, which does not exist", name)
		}
	}
	if len(names) < 3 {
		t.Errorf("the rules name %q", names)
	}
}
