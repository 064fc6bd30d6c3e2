package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A fullDisk is a standard output that goes to a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// TestFullOutput checks that each command reports if it cannot print because the disk is full, and
// blames no file but standard output.
func TestFullOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "a\n", "build", "-q", "--keep-hashes", "-o", "h.mmf")
	must(t, "a\n", "build", "-q", "--shards", "2", "-o", "s.set")
	for _, line := range []string{
		"build -o f.mmf", "grow h.mmf", "grow --json h.mmf", "expire --older-than 1h h.mmf", "repair h.mmf", "repair --json h.mmf", "merge -o g.mmf h.mmf",
		"check f.mmf", "check -c f.mmf", "check --json f.mmf", "info f.mmf", "info --json f.mmf", "verify f.mmf", "verify --json f.mmf",
		"size -n 1", "size --json -n 1", "build --shards 3 -o g.set", "info s.set", "info --json s.set", "verify s.set", "verify --json s.set",
		"check s.set", "set plan --shards 4 -o s.plan", "set partition --plan s.plan --task a --spool s",
		"set build --plan s.plan --shard 0-3 --spool s --out .", "set assemble --plan s.plan --spool s --out . -o t.set", "set gc .",
		"uniq", "dump f.mmf", "recover f.mmf", "recover --json f.mmf", "man", "--help", "check --help", "--version",
	} {
		want := exitError
		if strings.HasPrefix(line, "recover") {
			want = recoverFailed
		}
		var stderr bytes.Buffer
		exit := run(context.Background(), strings.Fields(line), strings.NewReader("a\n"), fullDisk{}, &stderr)
		if exit != want || stderr.String() != "mmapfilter: standard output: disk full\n" {
			t.Errorf("%s: exit %d, %s", line, exit, &stderr)
		}
	}
}

// TestExplain checks messages that scripts cannot produce: about other processes and users, and full
// disks.
func TestExplain(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"f.mmf", "f.mmf.stash"} {
		noError(t, os.WriteFile(name, nil, 0o666))
	}
	absolute, err := filepath.Abs("f.mmf")
	noError(t, err)
	denied := &fs.PathError{Op: "open", Path: absolute, Err: syscall.EACCES}
	noSpace := func(doing error) error {
		return fmt.Errorf("%w: %w", mmapfilter.ErrFailed, fmt.Errorf("%w: %w", doing, os.NewSyscallError("fallocate", syscall.ENOSPC)))
	}
	about := func(op string, err error) error { return &mmapfilter.OpError{Op: op, Path: "f.mmf", Err: err} }
	for _, c := range []struct {
		command string
		err     error
		want    string
	}{
		{"add", about("open", &mmapfilter.LockedError{PID: 1}), "f.mmf: process 1 has it open for writing; try again when it has finished"},
		{"build", about("build", &mmapfilter.LockedError{}), "f.mmf: another process has it open for writing; try again when it has finished"},
		{"add", about("open", &mmapfilter.LockedError{PID: os.Getpid()}), "f.mmf is already open for writing in this process"},
		{"add", about("open", &mmapfilter.LockedError{PID: 1, ReadLock: true}), "f.mmf: process 1 holds a read lock on it, which keeps writers out; try again when it has finished"},
		{"check", about("open", errors.Join(mmapfilter.ErrNeedsRecovery, denied)), "f.mmf: its writer has died, and you may not write to it; ask someone who may to run: mmapfilter recover f.mmf"},
		{"check", about("open", errors.Join(mmapfilter.ErrNeedsRecovery, &layout.CorruptError{Region: layout.RegionLog, Offset: 8192, Rule: "L4", What: "the commit says 3 items, its records make 2"})),
			"f.mmf: f.mmf.stash is damaged at offset 8192 (the commit says 3 items, its records make 2); restore it, or run: mmapfilter recover --discard-log f.mmf"},
		{"check", &layout.CorruptError{Region: layout.RegionSuperblock, Rule: "L2", What: "the newest superblock has generation 3, but NAME.stash has records of a later one"},
			"f.mmf: the newest superblock has generation 3, but f.mmf.stash has records of a later one; restore it, or run: mmapfilter recover --discard-log f.mmf"},
		{"check", about("open", mmapfilter.ErrBusy), "f.mmf: a writer has it open; try again when the writer has finished"},
		{"check", about("open", &mmapfilter.VersionError{Version: 9}), "f.mmf: format version 9, but this program reads versions up to 1; use a newer mmapfilter"},
		{"add", noSpace(recovery.ErrNoRoom), "disk full while growing f.mmf.stash; durable keys are kept, and --resume continues"},
		{"uniq", noSpace(errors.New("sync the filter")), "disk full while writing to f.mmf; durable keys are kept"},
		{"add", &fs.PathError{Op: "open", Path: absolute + ".stash", Err: syscall.EACCES}, "f.mmf.stash: permission denied"},
		{"build", about("build", &fs.PathError{Op: "open", Path: absolute + ".tmp-00ff", Err: syscall.EACCES}), "f.mmf: permission denied"},
		{"build", about("build", &fs.PathError{Op: "allocate 9 bytes for", Path: absolute, Err: os.NewSyscallError("fallocate", syscall.ENOSPC)}), "f.mmf: disk full"},
		{"build", &mmapfilter.CompleteError{Path: "f.mmf", But: "cannot be opened", Err: denied}, "f.mmf is complete, but cannot be opened: open " + absolute + ": permission denied"},
		{"grow", about("open", &recovery.HashesError{}), "f.mmf: the hashes of the filter's items are not there; restore both files, or build the filter again from its keys"},
		{"grow", about("open", &recovery.HashesError{Lacking: true}),
			"f.mmf: f.mmf.hashes lacks some hashes, since it was missing or could not be written to; restore both files, or build the filter again from its keys"},
		{"grow", about("open", &recovery.HashesError{Err: &fs.PathError{Op: "open", Path: absolute + ".hashes", Err: syscall.EACCES}}),
			"f.mmf: f.mmf.hashes: permission denied; restore both files, or build the filter again from its keys"},
		{"grow", about("rebuild", &fs.PathError{Op: "open", Path: absolute + ".rebuild.tmp-00ff", Err: syscall.ENOSPC}), "f.mmf: disk full"},
		{"add", fmt.Errorf("f.mmf: %w, and cannot grow: %w", mmapfilter.ErrFull, mmapfilter.ErrNoHashes), "f.mmf: filter is full, and cannot grow: the hashes of the filter's items are not there"},
		{"merge", about("merge", &fs.PathError{Op: "write", Path: absolute + ".tmp-00ff", Err: syscall.ENOSPC}), "f.mmf: disk full"},
		{"merge", &aboutError{"in.mmf", about("merge", fmt.Errorf("read in.mmf: %w", mmapfilter.ErrBusy))}, "in.mmf: a writer has it open; try again when the writer has finished"},
		{"expire", about("open", &mmapfilter.LockedError{PID: 1}), "f.mmf: process 1 has it open for writing; try again when it has finished"},
		{"check", about("open", errors.Join(errors.New("this"), errors.New("that"))), "f.mmf: this; that"},
	} {
		cmd, _, err := newRootCommand().Find([]string{c.command})
		noError(t, err)
		flag := map[string]string{"build": "output", "merge": "output", "uniq": "filter"}[c.command]
		if flag == "" {
			err = cmd.ParseFlags([]string{"f.mmf"})
		} else {
			err = cmd.Flags().Set(flag, "f.mmf")
		}
		noError(t, err)
		if got := explain(cmd, c.err); got != c.want || strings.Contains(got, "\n") {
			t.Errorf("%s: %v\n got %s\nwant %s", c.command, c.err, got, c.want)
		}
	}
}

// TestErrorsAreTyped checks that the command tells errors apart by their types and values, and does not
// search their texts.
func TestErrorsAreTyped(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	searches := []string{"Contains", "HasPrefix", "HasSuffix", "Cut", "CutPrefix", "CutSuffix", "TrimPrefix", "TrimSuffix", "Index", "Replace"}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		noError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || fmt.Sprint(f.X) != "strings" || !slices.Contains(searches, f.Sel.Name) {
				return true
			}
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if text, ok := n.(*ast.SelectorExpr); ok && (text.Sel.Name == "Error" || text.Sel.Name == "What") {
					t.Errorf("%s: strings.%s searches the text of an error", name, f.Sel.Name)
				}
				return true
			})
			return true
		})
	}
}
