package crashsim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A Trace is what a client does, and how the machine behaves.
type Trace struct {
	Seed     uint64
	Universe *Universe
	Ops      []Op

	sector   int  // index into sectorSizes
	failOdds int  // one sync in failOdds fails; 0: no sync fails
	failFrom int  // first operation whose sync may fail
	hashOdds int  // one in hashOdds calls that write hashes fails; 0: none fails
	trash    bool // sectors may be trashed
	readers  bool // oracle O4 is on
	beside   bool // inserts and deletes run while a sync waits for the disk
	noRoom   bool // the disk has no room for a larger log
}

func (t *Trace) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "trace of seed %d: sectors of %d bytes", t.Seed, sectorSizes[t.sector])
	if t.failOdds != 0 {
		fmt.Fprintf(&b, ", one sync in %d fails from operation %d on", t.failOdds, t.failFrom)
	}
	if t.hashOdds != 0 {
		fmt.Fprintf(&b, ", one in %d calls that write hashes fails", t.hashOdds)
	}
	if t.trash {
		b.WriteString(", trashed sectors")
	}
	if t.beside {
		b.WriteString(", operations beside syncs")
	}
	if t.noRoom {
		b.WriteString(", no room for a larger log")
	}
	fmt.Fprintf(&b, "\n%s", t.Universe)
	for i, op := range t.Ops {
		fmt.Fprintf(&b, " %d:%s", i, op)
	}
	return b.String()
}

// An OpKind is what a client does.
type OpKind uint8

const (
	Insert OpKind = iota
	Delete        // skipped if the key is not in the filter: a client must not delete it then
	Sync
	SyncSeq // a sync whose user sequence is the number of the operation plus one
	Checkpoint
	Seal
	Reopen          // closes the filter cleanly and opens it again
	BeginCheckpoint // a sync, and the first half of a checkpoint unless one is under way
	EndCheckpoint   // the second half, if a checkpoint is under way
	Rebuild         // a new file with the same items takes the place of the filter
	Unique          // inserts the key unless a lookup answers "maybe"
)

// An Op is one operation of a trace.
type Op struct {
	Kind OpKind
	Key  int // for Insert, Unique and Delete
}

func (o Op) String() string {
	switch o.Kind {
	case Insert:
		return fmt.Sprintf("insert(%d)", o.Key)
	case Delete:
		return fmt.Sprintf("delete(%d)", o.Key)
	case Unique:
		return fmt.Sprintf("insert-unique(%d)", o.Key)
	}
	return [...]string{Sync: "sync", SyncSeq: "sync-seq", Checkpoint: "checkpoint", Seal: "seal", Reopen: "reopen", BeginCheckpoint: "begin-checkpoint", EndCheckpoint: "end-checkpoint", Rebuild: "rebuild"}[o.Kind]
}

// randomTrace returns the trace of a seed.
func randomTrace(all []*Universe, seed uint64) *Trace {
	rng := rand.New(rand.NewPCG(seed, 0xC0FFEE))
	u := all[rng.IntN(len(all))]
	t := &Trace{Seed: seed, Universe: u, sector: rng.IntN(4), trash: rng.IntN(2) == 0, readers: rng.IntN(3) != 0}
	t.beside = rng.IntN(2) == 0
	t.noRoom = mix(seed)%4 == 0
	n := 4 + rng.IntN(28)
	if rng.IntN(2) == 0 {
		t.failOdds = []int{12, 4}[rng.IntN(2)]
		t.failFrom = rng.IntN(n)
	}
	weights := randomWeights(u, seed, rng)
	if odds := mix(seed + 2); u.base.RequireHashes && odds%2 == 0 || u.keeps && odds%8 == 1 {
		t.hashOdds = 4
	}
	if rng.IntN(4) == 0 { // each sync takes a page of the log, until it is full
		n += 10
		weights[SyncSeq] += 40
		weights[Checkpoint], weights[Seal], weights[Reopen], weights[BeginCheckpoint], weights[Rebuild] = 0, 0, 0, 0, 0
	}
	total := 0
	for _, w := range weights {
		total += w
	}
	counts := u.start.Counts
	last := rng.IntN(len(u.keys))
	said := 0
	for range n {
		if len(u.script) > 0 && rng.IntN(8) != 0 {
			op := u.script[said%len(u.script)]
			said++
			t.Ops = append(t.Ops, op)
			if op.Kind == Insert {
				counts[op.Key]++
			} else if op.Kind == Delete && counts[op.Key] > 0 {
				counts[op.Key]--
			}
			continue
		}
		pick, kind := rng.IntN(total), OpKind(0)
		for pick >= weights[kind] {
			pick -= weights[kind]
			kind++
		}
		op := Op{Kind: kind}
		switch kind {
		case Insert, Unique:
			if rng.IntN(3) != 0 {
				last = rng.IntN(len(u.keys))
			}
			op.Key = last
			if kind == Insert || counts[last] == 0 {
				counts[last]++
			}
		case Delete:
			op.Key = deletable(counts, len(u.keys), rng)
			if op.Key < 0 {
				op = Op{Kind: Sync}
				break
			}
			counts[op.Key]--
		}
		t.Ops = append(t.Ops, op)
	}
	return t
}

// randomWeights returns how often each kind of operation is drawn, which differs between traces.
func randomWeights(u *Universe, seed uint64, rng *rand.Rand) (weights [Unique + 1]int) {
	weights = [...]int{
		Insert: 10 + rng.IntN(30), Delete: 5 + rng.IntN(25), Sync: 2 + rng.IntN(20), SyncSeq: rng.IntN(8),
		Checkpoint: rng.IntN(3), Seal: rng.IntN(2), Reopen: rng.IntN(2), BeginCheckpoint: rng.IntN(4), EndCheckpoint: rng.IntN(3),
		Rebuild: rng.IntN(4), Unique: 0,
	}
	if u.keeps {
		weights[Unique] = []int{0, 5, 40}[mix(seed+1)%3]
	}
	return weights
}

// deletable returns a random key that is in the filter, or -1.
func deletable(counts Counts, keys int, rng *rand.Rand) int {
	n, chosen := 0, -1
	for i, c := range counts[:keys] {
		if c != 0 {
			if n++; rng.IntN(n) == 0 {
				chosen = i
			}
		}
	}
	return chosen
}
