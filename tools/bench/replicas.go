package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
	"golang.org/x/sync/errgroup"
)

// A replicasRun measures replicas beside a filter that changes at a steady rate. The filter and
// each replica are in processes of their own.
type replicasRun struct {
	*session
	keys                    uint64
	rate, seconds, replicas int

	primary   *child
	followers []*child
}

// newReplicas returns the command that measures replicas.
func newReplicas(s *session) command {
	v := &replicasRun{session: s}
	s.countFlag(&v.keys, "keys", "100M", "how many keys the filter has; -size and -rounds have no effect")
	s.flags.IntVar(&v.rate, "rate", 5000, "changes a second: a delete and an insert in turn")
	s.flags.IntVar(&v.seconds, "seconds", 60, "how long replicas follow; before that, the filter changes for a third of this time without replicas")
	s.flags.IntVar(&v.replicas, "replicas", 3, "how many replicas there are")
	return command{map[string]string{"keys": "20K", "rate": "1000", "seconds": "3", "replicas": "2"}, v.run}
}

// A moment is a time, and the number of operations that the history of a filter had then.
type moment struct {
	At     time.Time
	Number uint64
}

type ChangeArgs struct {
	Keys uint64 // how many keys the filter began with
	Rate int
	For  time.Duration
}

type Changed struct {
	Moments []moment
	Changes uint64
	End     mmapfilter.Position
	Len     uint64
}

type FollowArgs struct{ URL, Path string }

type Tracked struct {
	Moments       []moment
	Before, After replica.Stats
}

func (v *replicasRun) run() (err error) {
	if v.rate < 1 || v.seconds < 3 || v.replicas < 1 {
		return errors.New("-rate and -replicas must be at least 1, and -seconds at least 3")
	}
	n := v.keys
	v.note("build of %d keys", n)
	opts := &mmapfilter.Options{Capacity: n + n/100 + 1000, KeepHashes: true, Seed: v.seed}
	f, err := mmapfilter.Build(v.ctx, v.path("primary.mmf"), opts, numbers(0, n))
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	defer func() {
		if v.primary != nil {
			v.followers = append(v.followers, v.primary)
		}
		err = errors.Join(err, endAll(v.followers))
	}()
	if v.primary, err = v.start(); err != nil {
		return err
	}
	var url string
	if err := v.primary.ask("Publish", v.path("primary.mmf"), &url); err != nil {
		return err
	}
	return v.measure(n, url)
}

// measure measures the primary alone, and then with replicas.
func (v *replicasRun) measure(n uint64, url string) error {
	v.note("changes without replicas")
	args := ChangeArgs{Keys: n, Rate: v.rate, For: time.Duration(v.seconds) * time.Second / 3}
	var alone, with Changed
	used, err := v.used(func() error { return v.primary.ask("Change", args, &alone) })
	if err != nil {
		return err
	}
	t := NewTable("", "processor, of one", "sets", "bytes a change", "changes behind, 50 %", "99 %", "most", "seconds behind, 50 %", "99 %", "most")
	t.Row("primary, no replica", percent(used[0].Seconds()/args.For.Seconds()), "", "", "", "", "", "", "", "")

	v.note("first snapshots")
	begun := time.Now()
	for range v.replicas {
		c, err := v.start()
		if err != nil {
			return err
		}
		v.followers = append(v.followers, c)
	}
	first := make([]replica.Stats, v.replicas)
	err = allAtOnce(v.followers, func(i int, c *child) error {
		return c.ask("Follow", FollowArgs{url, v.path(fmt.Sprintf("replica%d.mmf", i))}, &first[i])
	})
	if err != nil {
		return err
	}
	followed := time.Since(begun)

	v.note("changes with replicas")
	args.For = time.Duration(v.seconds) * time.Second
	all := make([]Tracked, v.replicas)
	used, err = v.used(func() error {
		return allAtOnce(append([]*child{v.primary}, v.followers...), func(i int, c *child) error {
			if i == 0 {
				return c.ask("Change", args, &with)
			}
			return c.ask("Track", args.For, &all[i-1])
		})
	})
	if err != nil {
		return err
	}
	t.Row(fmt.Sprintf("primary, %d replicas", v.replicas), percent(used[0].Seconds()/args.For.Seconds()), "", "", "", "", "", "", "", "")
	for i, r := range all {
		t.Row(append([]string{fmt.Sprintf("replica %d", i+1), percent(used[i+1].Seconds() / args.For.Seconds())}, r.cells(with.Moments)...)...)
	}
	v.note("the end")
	err = allAtOnce(v.followers, func(_ int, c *child) error {
		var keys uint64
		err := c.ask("Arrive", with.End, &keys)
		if err == nil && keys != with.Len {
			err = fmt.Errorf("a replica has %d keys, and the primary %d", keys, with.Len)
		}
		return err
	})
	if err != nil {
		return err
	}
	v.printf("\n%s keys; %s changes in %d seconds, at most %d a second. %d replicas were first there after %s, with snapshots of %s each.\n",
		Grouped(int64(n)), Grouped(int64(with.Changes)), v.seconds, v.rate, v.replicas, Brief(followed), Mebibytes(int64(first[0].SnapshotBytes)))
	v.print(t)
	return nil
}

// allAtOnce does something with all children at once.
func allAtOnce(children []*child, do func(i int, c *child) error) error {
	var group errgroup.Group
	for i, c := range children {
		group.Go(func() error { return do(i, c) })
	}
	return group.Wait()
}

// used returns the processor time that the primary and each replica use while do runs.
func (v *replicasRun) used(do func() error) (times []time.Duration, err error) {
	children := append([]*child{v.primary}, v.followers...)
	for _, c := range children {
		t, err := processorTime(c.pid())
		if err != nil {
			return nil, err
		}
		times = append(times, -t)
	}
	err = do()
	for i, c := range children {
		t, err2 := processorTime(c.pid())
		times[i] += t
		err = errors.Join(err, err2)
	}
	return times, err
}

// cells returns the cells of a replica: the sets that it applied, the bytes that it received for
// each change, and how far it was behind the primary, whose history grew as the moments say.
func (r *Tracked) cells(primary []moment) []string {
	var changes []uint64
	var late []time.Duration
	for _, m := range r.Moments {
		now, _ := slices.BinarySearchFunc(primary, m.At, func(p moment, at time.Time) int { return p.At.Compare(at) })
		if now == 0 || now == len(primary) {
			continue // before the first change, or after the last
		}
		next, _ := slices.BinarySearchFunc(primary, m.Number+1, func(p moment, n uint64) int { return cmp.Compare(p.Number, n) })
		if next >= now {
			changes, late = append(changes, 0), append(late, 0)
			continue
		}
		changes = append(changes, primary[now-1].Number-m.Number)
		late = append(late, m.At.Sub(primary[next].At))
	}
	got := r.After.Position.Number - r.Before.Position.Number
	cells := []string{fmt.Sprint(r.After.Sets - r.Before.Sets), Digits(float64(r.After.ChangeBytes-r.Before.ChangeBytes) / float64(max(got, 1)))}
	slices.Sort(changes)
	slices.Sort(late)
	if len(late) == 0 {
		return append(cells, "-", "-", "-", "-", "-", "-")
	}
	at := func(percent int) int { return (len(late) - 1) * percent / 100 }
	for _, p := range []int{50, 99, 100} {
		cells = append(cells, Grouped(int64(changes[at(p)])))
	}
	for _, p := range []int{50, 99, 100} {
		cells = append(cells, Digits(late[at(p)].Seconds()))
	}
	return cells
}

// Publish opens the filter at a path, and serves it at a URL.
func (w *worker) Publish(path string, url *string) (err error) {
	if w.filter, err = mmapfilter.Open(path, nil); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(listener, replica.Handler(w.filter))
	*url = "http://" + listener.Addr().String()
	return nil
}

// Change makes changes at a rate.
func (w *worker) Change(a ChangeArgs, c *Changed) error {
	if w.churner == nil {
		w.churner = &churner{filter: w.filter, high: a.Keys}
	}
	w.churner.operations = 0
	at := w.filter.Position().Number
	for begun := time.Now(); time.Since(begun) < a.For; time.Sleep(5 * time.Millisecond) {
		for due := time.Since(begun).Seconds() * float64(a.Rate); float64(w.churner.operations) < due; {
			if err := w.churner.work(1, nil); err != nil {
				return err
			}
		}
		c.Moments = append(c.Moments, moment{time.Now(), at + uint64(w.churner.operations)})
	}
	err := w.filter.Sync()
	c.Changes, c.End, c.Len = uint64(w.churner.operations), w.filter.Position(), w.filter.Len()
	if err == nil && c.End.Number != at+c.Changes {
		err = fmt.Errorf("%d changes lead from %d to %v", c.Changes, at, c.End)
	}
	return err
}

// Follow starts a replica.
func (w *worker) Follow(a FollowArgs, s *replica.Stats) (err error) {
	if w.replica, err = replica.Follow(context.Background(), a.URL, a.Path, nil); err == nil {
		*s = w.replica.Stats()
	}
	return err
}

// Track notes the position of the replica again and again, for a time.
func (w *worker) Track(d time.Duration, t *Tracked) error {
	t.Before = w.replica.Stats()
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(5 * time.Millisecond) {
		t.Moments = append(t.Moments, moment{time.Now(), w.replica.Stats().Position.Number})
	}
	t.After = w.replica.Stats()
	return w.replica.Err()
}

// Arrive waits until the replica is at a position, and says how many keys it has.
func (w *worker) Arrive(at mmapfilter.Position, keys *uint64) error {
	for begun := time.Now(); w.replica.Stats().Position != at; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			return fmt.Errorf("the replica stays behind: %+v, %v", w.replica.Stats(), w.replica.Err())
		}
	}
	*keys = w.replica.Len()
	return nil
}
