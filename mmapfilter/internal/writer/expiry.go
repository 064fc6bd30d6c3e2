package writer

// SetExpireAfter has the file say how long items stay, in nanoseconds. It makes a durable superblock. No
// operation may go on meanwhile.
func (w *Writer) SetExpireAfter(v uint64) error {
	w.protocol.SetExpireAfter(v)
	return w.goLive()
}

// SetExpiredBefore has the next superblock say before which time all items have been deleted. There will
// be one when the file is closed, also if no operation comes.
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

// Shorten has HistoryIsLong report true.
func (w *Writer) Shorten() { w.tooLong.Store(true) }
