package peers

import "testing"

// benchBytes is a table larger than the private cache of a usual core.
const benchBytes = 24 << 20

// BenchmarkFilters reports ns/key of inserts, averaged from an empty filter to a full one, and ns/op
// of a lookup in the full filter, of a present and of an absent key.
//
//	go test ./peers -run '^$' -bench Filters
func BenchmarkFilters(b *testing.B) {
	for _, e := range All(benchBytes) {
		b.Run("filter="+e.Name, func(b *testing.B) { benchFilter(b, e) })
	}
}

func benchFilter(b *testing.B, e Entry) {
	key := patterns[0].key // every filter hashes, so consecutive keys are spread anywhere
	b.Run("op=insert", func(b *testing.B) {
		keys := uint64(0)
		for b.Loop() {
			b.StopTimer()
			f := made(b, e)
			b.StartTimer()
			keys += fill(b, e, f, key)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(keys), "ns/key")
	})
	f := made(b, e)
	keys := fill(b, e, f, key)
	b.Run("op=present", func(b *testing.B) {
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
	b.Run("op=absent", func(b *testing.B) {
		asked, found := uint64(0), 0
		for b.Loop() {
			if f.Contains(key(1<<32 + asked)) {
				found++
			}
			asked++
		}
		b.ReportMetric(100*float64(found)/float64(asked), "%found")
		b.ReportMetric(float64(f.Bytes()*8)/float64(keys), "bits/key")
	})
}

// made makes a filter whose pages are present before the clock runs.
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
