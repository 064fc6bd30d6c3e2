package recovery

import "runtime"

// populateStep is how much of a mapping is populated between two reports.
const populateStep = 64 << 20

// Populate reads the mapping into memory and enters it into the page table, so
// that lookups do not fault. progress, if not nil, is called as it goes on.
func (m *Mapping) Populate(progress func(done, total int64)) error {
	total := int64(len(m.Data))
	for off := int64(0); off < total; off += populateStep {
		end := min(off+populateStep, total)
		if err := m.populate(m.Data[off:end]); err != nil {
			return err
		}
		if progress != nil {
			progress(end, total)
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
