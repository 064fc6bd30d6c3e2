package writer

import "time"

// A due says which work must be done beside operations, apart from a commit at the end of the
// interval, which is always due.
type due struct {
	commit    bool // a commit at once
	largerLog bool
	room      int // if above 0, a checkpoint is due unless the log has room for this many stores
}

// ask starts the work that is due, unless the Work has ended. It does not start work that is under
// way already; but if a checkpoint is due while one is under way, another one follows.
func (k *Work) ask(d due) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.closed {
		return
	}
	if k.mu.timer == nil && k.Interval > 0 {
		k.group.Add(1)
		k.mu.timer = time.AfterFunc(k.Interval, k.commitLate)
	}
	if d.commit && !k.mu.committing { // the method value is made only here, since it is allocated
		k.start(&k.mu.committing, k.Writer.Sync)
	}
	if d.largerLog && !k.mu.growing {
		k.start(&k.mu.growing, k.Writer.Grow)
	}
	if k.mu.room = max(k.mu.room, d.room); k.mu.room > 0 && !k.mu.checkpointing {
		k.mu.checkpointing = true
		k.group.Add(1)
		go k.checkpoint()
	}
}

// start runs do in the background, and sets doing meanwhile. REQUIRES: k.mu, which also guards doing.
func (k *Work) start(doing *bool, do func() error) {
	*doing = true
	k.group.Add(1)
	go func() {
		defer k.group.Done()
		k.Report(k.Catch(do))
		k.mu.Lock()
		defer k.mu.Unlock()
		*doing = false
	}()
}

// commitLate commits at the end of the interval. If a checkpoint is stuck, commitLate tries it again.
// The next pending operation begins another interval.
func (k *Work) commitLate() {
	defer k.group.Done()
	k.mu.Lock()
	k.mu.timer = nil
	k.mu.Unlock()
	k.Report(k.Catch(k.Writer.Sync))
	if k.Writer.Protocol().Stuck() != nil {
		k.ask(due{room: 1})
	}
}

// checkpoint makes checkpoints for as long as one is due. After a checkpoint that failed, the next
// one begins only when it is asked for.
func (k *Work) checkpoint() {
	defer k.group.Done()
	for room := k.nextRoom(); room > 0; room = k.nextRoom() {
		err := k.Catch(func() error { return k.Writer.CheckpointFor(room) })
		if err == nil {
			k.Writer.forgetPast(k.Files)
			continue
		}
		k.Report(err)
		if k.Writer.Err() != nil {
			return // no other checkpoint begins
		}
		k.mu.Lock()
		k.mu.room = 0
		k.mu.Unlock()
	}
}

// nextRoom returns the room that the next checkpoint must make, and resets it. It returns 0 if
// no checkpoint is due.
func (k *Work) nextRoom() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	room := k.mu.room
	k.mu.room = 0
	k.mu.checkpointing = room > 0
	return room
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
