package writer

import (
	"time"
)

// Begin has the writer call Behind and Unsealing. No operation may be under way.
func (k *Work) Begin() { k.Writer.Behind, k.Writer.Unsealing = k.Behind, k.Unsealing }

// Behind commits after the interval, and starts what else is due: see Writer.Behind. The caller
// holds the writer's lock.
func (k *Work) Behind(need int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.closed {
		return
	}
	if k.mu.timer == nil && k.Interval > 0 {
		k.group.Add(1)
		k.mu.timer = time.AfterFunc(k.Interval, k.commitLate)
	}
	switch { // not sooner: a method value is allocated, and every operation may ask for what is under way
	case need == CommitNow && !k.mu.committing:
		k.start(&k.mu.committing, k.commit)
	case need == GrowNow && !k.mu.growing:
		k.start(&k.mu.growing, k.Writer.Grow)
	}
	if k.mu.need = max(k.mu.need, need); k.mu.need > 0 && !k.mu.checkpointing {
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
		k.report(k.Catch(do))
		k.mu.Lock()
		defer k.mu.Unlock()
		*doing = false
	}()
}

func (k *Work) commit() error { return k.Writer.Sync() }

// commitLate commits at the end of the interval, and tries a checkpoint again that is stuck. An
// operation that comes from then on begins another.
func (k *Work) commitLate() {
	defer k.group.Done()
	k.mu.Lock()
	k.mu.timer = nil
	k.mu.Unlock()
	k.report(k.Catch(k.commit))
	if k.Writer.Protocol().Stuck() != nil {
		k.Behind(1)
	}
}

// checkpoint makes checkpoints for as long as one is due. After one that failed, none begins before it
// is asked for.
func (k *Work) checkpoint() {
	defer k.group.Done()
	for need := k.nextNeed(); need > 0; need = k.nextNeed() {
		err := k.Catch(func() error { return k.Writer.CheckpointFor(need) })
		if err == nil {
			continue
		}
		k.report(err)
		if k.Writer.Err() != nil {
			return // and none begins again
		}
		k.mu.Lock()
		k.mu.need = 0
		k.mu.Unlock()
	}
}

// nextNeed takes the need of the next checkpoint, or returns 0 if none is due.
func (k *Work) nextNeed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	need := k.mu.need
	k.mu.need = 0
	k.mu.checkpointing = need > 0
	return need
}
