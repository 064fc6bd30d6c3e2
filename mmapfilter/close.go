package mmapfilter

// Close closes the filter. Lookups and batches in progress finish; later ones report true, which
// means "maybe" (C1). Close releases the memory at once; the garbage collector releases the
// address space, and with it the hold on the file, after the last lookup. Closing a filter again
// does nothing and returns nil.
//
// If the filter is open for writing, Close commits and checkpoints, which leaves one complete
// file, and removes the log. Close returns the error of these steps; [ErrCorrupt] if the file has
// been cut short; or else the error that [Filter.Err] returned before.
func (f *Filter) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	if f.growth.endCalls != nil {
		f.growth.endCalls()
	}
	if o := f.open.Load(); o != nil && o.work != nil {
		f.finishExpiry()
		f.finishResize(f.open.Load())
	}
	if f.growth.end != nil {
		f.growth.end()
	}
	f.growth.Lock() // until a rebuild has ended
	defer f.growth.Unlock()
	o := f.open.Load()
	if o == nil {
		return nil
	}
	f.answer(maybe, maybe)
	f.lastLen.Store(o.len()) // once open is nil, Len and Cap need these two
	f.lastCap.Store(o.superblock.Capacity())
	f.open.Store(nil)
	var err error
	if o.work != nil {
		err = o.work.Close()
	}
	f.lastLen.Store(o.len()) // operations may have been in progress
	if err == nil {
		err = o.err()
	}
	o.release() // last: a later read of the file would map a page of it again
	return err
}
