//go:build faults

package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestInstallAtCalls: if the process is killed at a call of Install that writes, or the call fails, the
// name has the old or the new file, with its hashes. If it has the old file, the new one can still be
// installed. If it has the new file, readers know that the old one is superseded, unless the error says
// otherwise.
func TestInstallAtCalls(t *testing.T) {
	stop := errors.New("stop")
	t.Cleanup(func() { fault.Hook = nil })
	kept := &Options{KeepHashes: true}
	// state checks the file at live, and reports whether it is the new one.
	state := func(from, live string) bool {
		t.Helper()
		f := mustOpen(t, live, &OpenOptions{RequireHashes: true})
		must(t, f.Rebuild(context.Background(), nil))
		isNew := f.Len() == 1000
		if isNew {
			mustHave(t, f, 0, 1000)
		} else {
			mustHave(t, f, 5000, 6500)
		}
		must(t, f.Close())
		if r := mustVerify(t, live, f.Len()); r.HashesErr != nil {
			t.Error(r.HashesErr)
		}
		if !isNew {
			must(t, install(from, live))
			r := mustOpenReadOnly(t, live, nil)
			if mustHave(t, r, 0, 1000); r.Len() != 1000 || r.Stats().GrowthErr != "" {
				t.Errorf("%+v", r.Stats())
			}
		}
		return isNew
	}
	var calls []string
	for failing := 0; failing <= len(calls); failing++ {
		t.Run(fmt.Sprintf("call %d fails", failing), func(t *testing.T) {
			f, from := mustBuild(t, kept, numbers(0, 1000))
			f.Close()
			reader, live := mustBuild(t, kept, numbers(5000, 6500))
			at := 0
			var kills [][2]string
			var made []string
			fault.Hook = func(call string) error {
				at++
				made = append(made, call)
				if failing == 0 {
					kills = append(kills, [2]string{copyFilter(t, from), copyFilter(t, live)})
				}
				if at == failing {
					return stop
				}
				return nil
			}
			err := install(from, live)
			fault.Hook = nil
			if (err == nil) != (failing == 0) || err != nil && !errors.Is(err, stop) {
				t.Fatalf("%v after %q", err, made)
			}
			if failing == 0 {
				calls = made
				isNew := make([]bool, len(kills))
				for i, kill := range kills {
					isNew[i] = state(kill[0], kill[1])
				}
				if first := slices.Index(isNew, true); first < 0 || slices.Contains(isNew[first:], false) || slices.Index(calls, "rename") != first-1 {
					t.Errorf("the file is the new one: %t, at %q", isNew, calls)
				}
				want := []string{"fsync", "fsync", "link", "rename", "remove", "remove", "rename", "syncdir", "remove", "remove", "remove", "remove", "syncdir", "write"}
				if !slices.Equal(calls, want) {
					t.Errorf("the calls are %q, not %q", calls, want)
				}
			}
			complete := err == nil || errors.As(err, new(*CompleteError))
			untold := err != nil && strings.Contains(err.Error(), "is not known to readers")
			if told := errors.Is(reader.Err(), ErrSuperseded); told != (complete && !untold) {
				t.Errorf("a reader knows that the old file is superseded: %t, %v", told, err)
			}
			if isNew := state(from, live); isNew != complete {
				t.Errorf("the file is the new one: %t, %v", isNew, err)
			}
		})
	}
}
