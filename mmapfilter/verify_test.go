package mmapfilter

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// mustClean turns a sealed file into one that was written to and closed.
func mustClean(t *testing.T, path string) layout.Geometry {
	t.Helper()
	f, head, err := osfile.OpenFile(path)
	must(t, err)
	f.Close()
	sb := *head.Superblock
	sb.SetState(layout.Clean)
	sb.Sign()
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer out.Close()
	for slot := range int64(layout.SuperblockSlots) {
		if _, err := out.WriteAt(sb[:], slot*layout.SuperblockBytes); err != nil {
			t.Fatal(err)
		}
	}
	return head.Geometry
}

// TestVerifyDuringTheLastStep: a writer that closes the file, or puts another one in its place,
// between a read of the superblock and a check of the lock has not died.
func TestVerifyDuringTheLastStep(t *testing.T) {
	w, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	must(t, errors.Join(w.InsertHash(spread(0)), w.Sync()))
	look := func() {
		if _, err := Verify(context.Background(), path); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	}
	handsOverMeanwhile(t, w, look)
	must(t, errors.Join(w.InsertHash(spread(1)), w.Sync()))
	defer func(old func()) { beforeAsking = old }(beforeAsking)
	beforeAsking = func() {
		must(t, w.Close())
	}
	look()
}

// TestVerifyWhileItIsWritten: a file that is not closed is busy while its writer lives, and
// needs recovery afterwards.
func TestVerifyWhileItIsWritten(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000})
	insertAll(t, f, hashes(8, 100))
	if r, err := Verify(context.Background(), path); !errors.Is(err, ErrBusy) || errors.Is(err, ErrNeedsRecovery) {
		t.Errorf("with a writer: %+v, %v", r, err)
	}
	if r, err := Verify(context.Background(), abandon(t, f, path)); !errors.Is(err, ErrNeedsRecovery) || errors.Is(err, ErrBusy) {
		t.Errorf("after its death: %+v, %v", r, err)
	}
}

// TestVerifyOfAReplacedFile: the mark of a file that is replaced while it is read (K4) is no damage.
func TestVerifyOfAReplacedFile(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	ctx := &hookContext{Context: context.Background(), hook: func() error {
		mustReplace(t, path)
		return nil
	}}
	if r, err := Verify(ctx, path); !errors.Is(err, ErrBusy) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Verify(context.Background(), path); err != nil {
		t.Error(err)
	}
}

// TestVerifyOfACleanFileCutShort: if a file without checksums is cut short while its lines are
// read, the damage is the missing line, not the count of keys.
func TestVerifyOfACleanFileCutShort(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 100_000))
	g := mustClean(t, path)
	if r, err := Verify(context.Background(), path); err != nil || r.Sealed || r.Items != 100_000 {
		t.Fatalf("%+v, %v", r, err)
	}
	size := g.OffTable / 2 / layout.PageBytes * layout.PageBytes
	ctx := &hookContext{Context: context.Background(), hook: func() error { return os.Truncate(path, size) }}
	r, err := Verify(ctx, path)
	if ctx.err != nil {
		t.Skip("NOT TESTED: this system keeps a mapped file from being cut short: ", ctx.err)
	}
	e := new(CorruptError)
	if !errors.As(err, &e) || e.Region != layout.RegionBuckets || e.Rule != "F6" || e.Offset < size || e.Offset >= layout.OffRegion+g.RegionBytes {
		t.Errorf("%+v, %v", r, err)
	}
}
