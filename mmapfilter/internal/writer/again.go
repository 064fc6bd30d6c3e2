package writer

// Unsealing has the system hold the file in small pages from now on (R4), which works only before the
// first store. It does the beginning of the file, and rest does the others; then rest has what was in
// memory read again in the background. See Writer.Unsealing. The caller holds the writer's
// lock, and hold takes it for each step of rest.
func (k *Work) Unsealing() (rest func(hold func(step func()))) {
	drop := k.Files.ShrinkPages()
	return func(hold func(step func())) {
		if drop(hold) {
			k.readAgain()
		}
	}
}

// readAgain reads the file in the background, in small pages, until it is done or the work ends.
func (k *Work) readAgain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.closed {
		return
	}
	k.group.Add(1)
	go func() {
		defer k.group.Done()
		k.Files.Mapping().Populate(true, func(int64, int64) bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			return !k.mu.closed
		})
	}()
}
