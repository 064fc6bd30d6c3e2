package recovery

import "runtime"

// populateStep is how much of a mapping is populated between two reports.
const populateStep = 64 << 20

// Populate reads the mapping into memory and enters it into the page table, so
// that lookups do not fault. more, if not nil, is called as it goes on, and says
// whether it is to.
//
// Of a file that is written, in a mapping that is advised to be random, small is to be set:
// the pages of the cache are small ones then, see [Files.ShrinkPages]. (One by one, as such a
// mapping is read otherwise, they take 171 s for 4 GiB in place of 2.)
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

// touch loads a byte of each page of part, which is a part of data.
func touch(data, part []byte) error {
	fault := Guard(data, func() {
		var sum byte
		for i := 0; i < len(part); i += 4096 {
			sum += part[i]
		}
		runtime.KeepAlive(sum) // so that the loads are made
	})
	if fault != nil {
		return fault
	}
	return nil
}
