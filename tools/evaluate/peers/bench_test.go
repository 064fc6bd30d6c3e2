package peers

import "testing"

// benchBytes is a table that a usual core's own cache does not hold.
const benchBytes = 24 << 20

// BenchmarkFilters gives ns for a key: an insert, on the average from an empty filter
// to a full one; a lookup in the full filter, of keys that are in it, and of keys
// that are not.
//
//	go test ./peers -run '^$' -bench Filters
func BenchmarkFilters(b *testing.B) {
	key := patterns[0].key // every filter hashes: keys that follow one another are anywhere
	for _, e := range All(benchBytes) {
		b.Run("filter="+e.Name+"/op=insert", func(b *testing.B) {
			var f Filter
			n := uint64(0)
			for b.Loop() {
				if f == nil || e.Keys != 0 && n == e.Keys || !f.Insert(key(n)) {
					b.StopTimer()
					f, n = made(b, e), 0
					b.StartTimer()
					f.Insert(key(n))
				}
				n++
			}
		})
		f := made(b, e)
		keys := fill(b, e, f, key)
		b.Run("filter="+e.Name+"/op=present", func(b *testing.B) {
			n := uint64(0)
			for b.Loop() {
				if !f.Contains(key(n)) {
					b.Fatalf("key %d is absent", n)
				}
				if n++; n == keys {
					n = 0
				}
			}
		})
		b.Run("filter="+e.Name+"/op=absent", func(b *testing.B) {
			n, found := uint64(1<<32), 0
			for b.Loop() {
				if f.Contains(key(n)) {
					found++
				}
				n++
			}
			b.ReportMetric(100*float64(found)/float64(n-1<<32), "%found")
			b.ReportMetric(float64(f.Bytes()*8)/float64(keys), "bits/key")
		})
	}
}

// made makes a filter whose pages are there before a clock runs.
func made(b *testing.B, e Entry) Filter {
	f, err := e.New()
	if err != nil {
		b.Fatal(err)
	}
	if lines, ok := f.(*blocked); ok {
		clear(lines.lines)
	} else {
		clear(words(f))
	}
	return f
}
