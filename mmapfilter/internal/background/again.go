package background

// Unsealing makes the system hold the file in small pages from now on (R4), which works only
// before the first store: it does so for the beginning of the file, and rest for the others. Then
// what was in memory is read again in the background. See engine.Writer.Unsealing. The caller holds
// the writer's lock, and hold has rest hold it.
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
