package mmapfilter

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/poll"
)

// A handClock makes the goroutine of a follower wait until the test lets it look.
type handClock struct {
	waits chan time.Duration
	ticks chan time.Time
}

func followByClock(t *testing.T, path string, opts *OpenOptions) (*Follower, *handClock) {
	t.Helper()
	c := &handClock{make(chan time.Duration), make(chan time.Time)}
	f, err := follow(path, opts, func(d time.Duration) <-chan time.Time { c.waits <- d; return c.ticks })
	must(t, err)
	return f, c
}

// look lets the follower look once, and returns for how long it then waits.
func (c *handClock) look() time.Duration {
	c.ticks <- time.Time{}
	return <-c.waits
}

// TestFollowLooks: the goroutine of a follower looks once per interval, continues after errors, and ends
// with Close.
func TestFollowLooks(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	mustLeakNothing := leaks(t)
	for interval, want := range map[time.Duration]time.Duration{0: poll.Default, time.Hour: time.Hour} {
		publish(t, path, image(t, nil, numbers(0, 1000)))
		f, clock := followByClock(t, path, &OpenOptions{FollowInterval: interval})
		if first := <-clock.waits; first != want {
			t.Errorf("the first wait is %v", first)
		}
		for n := uint64(2000); n < 2010; n++ {
			publish(t, path, image(t, nil, numbers(0, n)))
			if wait := clock.look(); wait != want || f.Filter().Len() != n || f.Err() != nil {
				t.Fatalf("it waits for %v, %d keys, %v", wait, f.Filter().Len(), f.Err())
			}
			if wait := clock.look(); wait != want || f.Stats().Swaps != n-1999 {
				t.Fatalf("it waits for %v, %d swaps", wait, f.Stats().Swaps)
			}
			publish(t, path, nil)
			if wait := clock.look(); wait < want || f.Filter().Len() != n || !errors.Is(f.Err(), ErrCorrupt) {
				t.Fatalf("it waits for %v, %d keys, %v", wait, f.Filter().Len(), f.Err())
			}
		}
		must(t, f.Close())
		mustBeClosed(t, f)
	}
	mustLeakNothing()
}

// TestFollowFailedLook: after a look that took long and failed, the next look comes later than usual.
func TestFollowFailedLook(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	var took time.Duration
	slow := false
	const interval = time.Nanosecond
	f, clock := followByClock(t, path, &OpenOptions{Residency: ResidencyHeap, FollowInterval: interval, Progress: func(done, total int64) {
		if !slow {
			return
		}
		begun := time.Now()
		for took < time.Millisecond {
			took = time.Since(begun)
		}
		os.Truncate(path, 100) // makes the copy fail
	}})
	defer f.Close()
	<-clock.waits
	slow = true
	publish(t, path, image(t, nil, numbers(0, 2000)))
	if wait := clock.look(); wait < 3*took || took == 0 || !errors.Is(f.Err(), ErrCorrupt) {
		t.Errorf("after a failed look of %v, it waits for %v, %v", took, wait, f.Err())
	}
	slow = false
	publish(t, path, image(t, nil, numbers(0, 2000)))
	if wait := clock.look(); wait != interval || f.Err() != nil || f.Filter().Len() != 2000 {
		t.Errorf("after a look that did not fail, it waits for %v; %d keys, %v", wait, f.Filter().Len(), f.Err())
	}
}

// TestFollowCloseAnywhere closes followers while they look for a new file, in the background and in
// Refresh, and while other goroutines look keys up.
func TestFollowCloseAnywhere(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	versions := [][]byte{image(t, nil, numbers(0, 1000)), image(t, &Options{Seed: 5}, numbers(0, 3000)), nil}
	mustLeakNothing := leaks(t)
	rounds := 100
	if runtime.GOOS == "windows" {
		rounds = 25 // opening a file is slow in Wine
	}
	for round := range rounds {
		publish(t, path, versions[round%2])
		f := mustFollow(t, path, &OpenOptions{FollowInterval: 1, Residency: Residency(round % len(residencyNames))})
		start := make(chan struct{})
		var group sync.WaitGroup
		each := func(do func()) {
			group.Add(1)
			go func() {
				defer group.Done()
				<-start
				do()
			}()
		}
		each(func() {
			for {
				if _, err := f.Refresh(); errors.Is(err, ErrClosed) {
					return
				}
			}
		})
		each(func() {
			found, keys := make([]bool, 100), make([][]byte, 100)
			for !errors.Is(f.Err(), ErrClosed) {
				f.Contains([]byte("key"))
				f.ContainsBatch(keys, found)
				f.Stats()
			}
		})
		for range 2 {
			each(func() {
				for range round {
					runtime.Gosched()
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		for i := range 4 {
			publish(t, path, versions[i%3])
		}
		group.Wait()
		mustBeClosed(t, f)
	}
	mustLeakNothing()
}
