package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// mustChanges returns the changes of a filter since a position.
func mustChanges(t testing.TB, f *Filter, since Position, replica Classes) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := f.ChangesFor(context.Background(), &b, since, replica)
	must(t, err)
	return b.Bytes()
}

// mustBeAt checks that a replica has the position of a filter, and the keys with their numbers of
// copies.
func mustBeAt(t testing.TB, replica, f *Filter, keys map[uint64]uint64) {
	t.Helper()
	if replica.Position() != f.Position() {
		t.Fatalf("the replica is at %v, the filter at %v", replica.Position(), f.Position())
	}
	if replica.DurableSeq() != f.DurableSeq() || replica.DurableOps() != f.DurableOps() {
		t.Fatalf("the replica has %d operations after %d, the filter %d after %d",
			replica.DurableOps(), replica.DurableSeq(), f.DurableOps(), f.DurableSeq())
	}
	copies := counts{}
	for key, n := range keys {
		copies[f.Hash(numberKey(key))] = int64(n)
	}
	must(t, copies.in(replica))
}

// TestApplyKeepsForeignFiles: Apply does not overwrite a file of another kind with the name NAME.apply.
// A set that was left there is removed, also if a snapshot replaces the filter.
func TestApplyKeepsForeignFiles(t *testing.T) {
	ctx := context.Background()
	f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	must(t, f.Sync())
	_, at, path := mustSnapshot(t, f)
	must(t, f.Insert([]byte("a")))
	must(t, f.Sync())
	set := mustChanges(t, f, at, Classes{})
	must(t, os.WriteFile(path+".apply", []byte("a letter"), 0o600))
	r := mustOpen(t, path, nil)
	if _, err := r.Apply(ctx, bytes.NewReader(set)); !errors.As(err, new(*ForeignError)) || string(readFile(t, path+".apply")) != "a letter" || r.Position() != at {
		t.Errorf("a letter: %v", err)
	}
	for _, left := range []string{"", "\x00\x00\x00\x00\x00\x00\x00\x00\x00", "MMFAPPLY"} {
		must(t, os.WriteFile(path+".apply", []byte(left), 0o600))
		must(t, r.Close())
		r = mustOpen(t, path, nil)
		if _, err := os.Stat(path + ".apply"); err == nil {
			t.Errorf("NAME.apply with %q still exists", left)
		}
	}
	must(t, r.Close())
	must(t, os.WriteFile(path+".apply", []byte("MMFAPPLY"), 0o600))
	_, err := f.Snapshot(ctx, path)
	must(t, err)
	if _, err := os.Stat(path + ".apply"); err == nil {
		t.Error("a snapshot has left NAME.apply of the filter that it replaced")
	}
}

// mustHavePart returns a replica with a part of a set, because it has no room for the copies of some
// keys.
func mustHavePart(t *testing.T) (replica *Filter, path string) {
	t.Helper()
	f, _ := mustCreate(t, &Options{Capacity: 1000, KeepChanges: time.Hour})
	must(t, f.SyncAt(5))
	_, at, path := mustSnapshot(t, f)
	must(t, f.Rebuild(t.Context(), &RebuildOptions{Capacity: 20_000}))
	for i := range uint64(900 * 12) {
		must(t, f.Insert(numberKey(i/12)))
	}
	must(t, f.Sync())
	replica = mustOpen(t, path, nil)
	if _, err := replica.Apply(t.Context(), bytes.NewReader(mustChanges(t, f, at, Classes{}))); !errors.Is(err, ErrFull) || replica.Len() == 0 {
		t.Fatalf("%d items, %v", replica.Len(), err)
	}
	return replica, path
}

// TestInstallRefusesPart: Install refuses a replica that has only some changes of a set. With another
// name it would have no NAME.apply, and could take no more changes.
func TestInstallRefusesPart(t *testing.T) {
	replica, path := mustHavePart(t)
	must(t, replica.Close())
	if _, err := Install(t.Context(), path, path+".installed", nil); !errors.Is(err, ErrApplying) {
		t.Error(err)
	}
	for _, name := range []string{path, path + ".apply"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

// TestPartCountsNothing: while a replica has a part of a set, the operation number in its file counts
// changes, in the order of their hashes. No call must return this number: a program that took it for a
// number of operations would skip operations that were not done.
func TestPartCountsNothing(t *testing.T) {
	ctx := context.Background()
	replica, path := mustHavePart(t)
	must(t, replica.Checkpoint(ctx))
	if n := replica.open.Load().newest().Operation(); n == 0 {
		t.Fatal("no change was applied")
	}
	has := func(what string, seq, ops uint64) {
		if seq != 0 || ops != 0 {
			t.Errorf("%s: %d operations after %d", what, ops, seq)
		}
	}
	has("the replica", replica.DurableSeq(), replica.DurableOps())
	reader := mustOpenReadOnly(t, path, nil)
	has("a reader", reader.DurableSeq(), reader.DurableOps())
	left, lost := abandon(t, replica, path), abandon(t, replica, path)
	must(t, replica.Close())
	for range 2 { // the file is live, and then clean
		found, err := Recover(left)
		must(t, err)
		has("recovered", found.UserSeq, found.Operations)
	}
	built, err := Build(ctx, left, &Options{Capacity: 1000}, numbers(0, 10))
	must(t, err)
	defer built.Close()
	has("built anew", built.DurableSeq(), built.DurableOps())
	must(t, os.Remove(lost+".stash"))
	found, err := DiscardLog(lost)
	must(t, err)
	has("discarded", found.UserSeq, found.Operations)
	departed := mustOpen(t, lost, nil)
	has("opened after that", departed.DurableSeq(), departed.DurableOps())
}
