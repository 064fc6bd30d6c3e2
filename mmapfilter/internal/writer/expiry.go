package writer

// SetExpireAfter records in the superblock how long items stay, in nanoseconds, and makes the superblock
// durable. No operation may go on meanwhile.
func (w *Writer) SetExpireAfter(v uint64) error {
	w.protocol.SetExpireAfter(v)
	return w.goLive()
}

// SetExpiredBefore makes the next superblock record that all items from before a time have been deleted.
// Closing the file stores such a superblock, even if no operation comes.
func (w *Writer) SetExpiredBefore(v uint64) error {
	w.protocol.SetExpiredBefore(v)
	w.mu.Lock()
	live := w.protocol.Live()
	w.mu.Unlock()
	if live {
		return nil
	}
	return w.goLive()
}

// Shorten makes HistoryIsLong report true.
func (w *Writer) Shorten() { w.tooLong.Store(true) }
