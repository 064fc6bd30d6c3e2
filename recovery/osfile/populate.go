package osfile

import "runtime"

// populateStep is how many bytes are read between two progress reports.
const populateStep = 64 << 20

// Populate reads the mapping into memory and enters it into the page table, so that
// lookups do not fault. Unless more is nil, Populate calls it with the progress, and stops
// if more returns false.
//
// Set small for a file that is written to: its mapping has read-ahead off and its pages in
// the cache must be small (see [Files.DropLargePages]). Populate then reads many small
// pages at a time.
func (m *Mapping) Populate(small bool, more func(done, total int64) bool) error {
	total := int64(len(m.Data))
	for off := int64(0); off < total; off += populateStep {
		end := min(off+populateStep, total)
		if small {
			m.readSmall(m.Data[off:end])
		}
		if err := m.populate(m.Data[off:end]); err != nil {
			return err
		}
		if more != nil && !more(end, total) {
			break
		}
	}
	return nil
}

// leastPage is the size of the smallest pages of any system. Larger pages are touched more than once.
const leastPage = 4096

// touch loads a byte of each page of part, a part of data.
func touch(data, part []byte) error {
	fault := Catch(data, func() {
		var sum byte
		for i := 0; i < len(part); i += leastPage {
			sum += part[i]
		}
		runtime.KeepAlive(sum) // keeps the loads
	})
	if fault != nil {
		return fault
	}
	return nil
}
