package build

import (
	"slices"
	"sort"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// A history says when items were inserted. It has spans of time, which do not overlap, in ascending
// order, with the number of items that were inserted in each.
type history []hashes.Age

// mostSpans bounds the memory for a history. It is many times hashes.MostAges, so that joined
// spans are short compared with an age of the file. With many more spans, add would have to move too
// many to insert one.
const mostSpans = 4096

// add adds items that were committed at the given time. Items that leave together get one span.
func (h *history) add(time, items uint64, w Window) {
	i := h.find(time)
	if i < len(*h) && (*h)[i].First <= time {
		(*h)[i].Items += items
		return
	}
	a := hashes.Age{First: time, Last: time, Items: items}
	if w.Length > 0 {
		for j := max(i-1, 0); j < min(i+1, len(*h)); j++ {
			if w.end((*h)[j].Last) == w.end(time) {
				(*h)[j] = joinTwo((*h)[j], a)
				return
			}
		}
	}
	*h = slices.Insert(*h, i, a)
	if len(*h) > mostSpans {
		*h, _ = join(*h, mostSpans/2)
	}
}

// find returns the first span that does not end before a time.
func (h *history) find(time uint64) int {
	if n := len(*h); n > 0 && time >= (*h)[n-1].First { // times mostly rise
		if time <= (*h)[n-1].Last {
			return n - 1
		}
		return n
	}
	return sort.Search(len(*h), func(i int) bool { return (*h)[i].Last >= time })
}

// join joins neighbouring ages, those with the fewest items first, until their number is not above
// most. ages is in the order of the last times. to has, for each of ages, the index
// of its age in joined.
func join(ages []hashes.Age, most int) (joined []hashes.Age, to []int) {
	joined, parts := slices.Clone(ages), make([]int, len(ages))
	for i := range parts {
		parts[i] = 1
	}
	for len(joined) > most {
		// One pass joins many pairs: all that have at most twice as many items as the smallest pair.
		least := ^uint64(0)
		for i := range joined[1:] {
			least = min(least, joined[i].Items+joined[i+1].Items)
		}
		n, excess := 0, len(joined)-most
		for i := 0; i < len(joined); i++ {
			a, p := joined[i], parts[i]
			if excess > 0 && i+1 < len(joined) && a.Items+joined[i+1].Items <= 2*least {
				a = joinTwo(a, joined[i+1])
				p += parts[i+1]
				i++
				excess--
			}
			joined[n], parts[n] = a, p
			n++
		}
		joined, parts = joined[:n], parts[:n]
	}
	for i, p := range parts {
		for range p {
			to = append(to, i)
		}
	}
	return joined, to
}

func joinTwo(a, b hashes.Age) hashes.Age {
	return hashes.Age{First: min(a.First, b.First), Last: max(a.Last, b.Last), Items: a.Items + b.Items}
}
