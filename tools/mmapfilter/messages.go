package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/spf13/cobra"
)

// A fileError is an error about a file. Its text begins with the path.
type fileError struct {
	path string
	error
}

func (e *fileError) Error() string { return e.path + ": " + reason(e.error) }

func (e *fileError) Unwrap() error { return e.error }

// reason says what is wrong with a file, without its name or the failed call.
func reason(err error) string {
	for _, known := range []struct {
		err  error
		text string
	}{
		{fs.ErrNotExist, "no such file"},
		{fs.ErrExist, "file already exists; remove it or choose another name"},
		{fs.ErrPermission, "permission denied"},
		{syscall.ENOSPC, "disk full"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	if e := new(fs.PathError); errors.As(err, &e) {
		return reason(e.Err)
	}
	return err.Error()
}

// withPath turns an error of the file system into a fileError about the file that it names.
func withPath(err error) error {
	e := new(fs.PathError)
	if !errors.As(err, &e) {
		return err
	}
	if dir := filepath.Dir(e.Path); errors.Is(e, fs.ErrNotExist) {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("directory %s does not exist", dir)
		}
	}
	return &fileError{e.Path, err}
}

// An aboutError is an error about a filter other than the subject of the command.
type aboutError struct {
	path string
	error
}

func (e *aboutError) Unwrap() error { return e.error }

// A cutOff is the error of a command that has done only a part of its work.
type cutOff struct {
	left string // the part of the message after an interrupt that says what is left undone
	error
}

func (e *cutOff) Unwrap() error { return e.error }

// unchanged returns the error of a command that has left a file as it was.
func unchanged(path string, err error) error {
	if _, missing := os.Lstat(path); errors.Is(missing, fs.ErrNotExist) {
		return &cutOff{"there is no " + path, err}
	}
	return &cutOff{path + " is as it was before", err}
}

// explain says in one line what an error that ends a command is about: which file, what is wrong
// with it, and what helps. The library's errors are for programs that know the file. explain puts
// all of them into the words of the command line, so that the commands do not have to.
func explain(cmd *cobra.Command, err error) string {
	text := explainError(cmd, subject(cmd), err)
	for _, name := range append(cmd.Flags().Args(), subject(cmd)) {
		if isURL(name) {
			text = strings.ReplaceAll(text, name, shownURL(name))
		} else if strings.Contains(name, "\n") {
			text = strings.ReplaceAll(text, name, printable(name))
		}
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// subject is the filter that a command is about, as named on the command line.
func subject(cmd *cobra.Command) string {
	for _, name := range []string{"output", "filter", "keep"} {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
	}
	return cmd.Flags().Arg(0)
}

func explainError(cmd *cobra.Command, path string, err error) string {
	var (
		output   *outputError
		file     *fileError
		locked   *mmapfilter.LockedError
		damage   *mmapfilter.CorruptError
		version  *mmapfilter.VersionError
		complete *mmapfilter.CompleteError
		inPath   *fs.PathError
		option   *mmapfilter.OptionError
		other    *aboutError
		shard    *sets.ShardError
		foreign  *mmapfilter.ForeignError
	)
	if errors.As(err, &other) {
		path, err = other.path, other.error
	}
	switch {
	case errors.As(err, &output):
		return "standard output: " + reason(output.error)
	case errors.As(err, &file):
		return file.Error()
	case errors.As(err, &shard):
		return path + ": " + explainShard(cmd, path, shard)
	case errors.As(err, &option):
		return explainOption(option)
	case errors.As(err, &foreign):
		return explainForeign(cmd, path, foreign)
	case path == "" || errors.As(err, &complete): // there is no filter to name, or err names the new filter
		return err.Error()
	case isURL(path):
		return explainURL(path, err)
	case errors.Is(err, mmapfilter.ErrFull): // it may say why the filter cannot grow
		return withoutCall(path, err)
	case errors.Is(err, mmapfilter.ErrNoHashes):
		return explainHashes(cmd, path, err)
	case errors.As(err, &locked):
		return explainLocked(path, locked)
	case errors.As(err, &damage):
		return explainDamage(cmd, path, damage)
	case errors.As(err, &version):
		return fmt.Sprintf("%s: %v; use a newer mmapfilter", path, version)
	case errors.Is(err, mmapfilter.ErrNeedsRecovery):
		return explainDead(cmd, path, err)
	case errors.Is(err, mmapfilter.ErrSuperseded):
		text := path + ": another file has taken its place"
		if f := cmd.Flags().Lookup("follow"); f != nil && f.Value.String() == "false" {
			text += "; run it again, or give --follow, which goes on in the new file"
		}
		return text
	case errors.Is(err, mmapfilter.ErrChangesGone):
		return path + ": its changes from this position on are no longer kept; take a snapshot"
	case errors.Is(err, mmapfilter.ErrOtherDescent):
		return path + ": the position is not in its history; take a snapshot"
	case errors.Is(err, mmapfilter.ErrBusy):
		return path + ": a writer has it open; try again when the writer has finished"
	case errors.Is(err, mmapfilter.ErrFailed) && errors.Is(err, syscall.ENOSPC):
		return explainDiskFull(cmd, path, err)
	case errors.As(err, &inPath):
		return explainPath(path, inPath)
	}
	return withoutCall(path, err)
}

// explainShard explains an error of a shard of the set at path.
func explainShard(cmd *cobra.Command, path string, e *sets.ShardError) string {
	file := shardPath(path, e.Path)
	if other := new(sets.OtherSetError); errors.As(e.Err, &other) {
		return fmt.Sprintf("shard %d: %s: it is %s", e.Shard, file, other.Is)
	}
	return fmt.Sprintf("shard %d: %s", e.Shard, explainError(cmd, file, e.Err))
}

// shardPath makes the path of a shard, which is absolute, relative if the path of the set is relative.
func shardPath(set, shard string) string {
	if filepath.IsAbs(set) {
		return shard
	}
	dir, err := filepath.Abs(filepath.Dir(set))
	if err != nil {
		return shard
	}
	below, err := filepath.Rel(dir, shard)
	if err != nil {
		return shard
	}
	return filepath.Join(filepath.Dir(set), below)
}

// withoutCall returns the text of an error without the failed call.
func withoutCall(path string, err error) string {
	switch e := err.(type) {
	case *mmapfilter.OpError:
		if e.Path == path {
			return path + ": " + e.Err.Error()
		}
	case *cutOff:
		return withoutCall(path, e.error)
	case interface{ Unwrap() []error }:
		if list := e.Unwrap(); len(list) == 1 {
			return withoutCall(path, list[0])
		}
	}
	return err.Error()
}

// explainForeign explains that a new file would have destroyed another one, and what helps.
func explainForeign(cmd *cobra.Command, path string, e *mmapfilter.ForeignError) string {
	name, help := itself(path), "move it away or choose another name"
	if suffix, ok := strings.CutPrefix(filepath.Base(e.Path), filepath.Base(name)); ok {
		name += suffix
	} else {
		name = e.Path
	}
	if cmd.Flags().Lookup("force") != nil && !cmd.Flags().Changed("shards") {
		help = "move it away, choose another name, or give --force"
	}
	return fmt.Sprintf("this would destroy %s, %s; %s", name, e.Is, help)
}

// explainOption explains an error of an option in terms of its flag.
func explainOption(e *mmapfilter.OptionError) string {
	if flag := optionFlags[e.Field]; flag != "" {
		return flag + ": " + e.Reason
	}
	return e.Error()
}

func explainLocked(path string, e *mmapfilter.LockedError) string {
	by := "another process"
	if e.PID != 0 {
		by = fmt.Sprintf("process %d", e.PID)
	}
	switch {
	case e.ReadLock:
		return fmt.Sprintf("%s: %s holds a read lock on it, which keeps writers out; try again when it has finished", path, by)
	case e.PID == os.Getpid():
		return path + " is already open for writing in this process"
	}
	return fmt.Sprintf("%s: %s has it open for writing; try again when it has finished", path, by)
}

// explainDead explains that the writer of a filter died. What helps depends on whether the log
// exists, and on whether the user may write to the filter.
func explainDead(cmd *cobra.Command, path string, err error) string {
	if f, openErr := os.OpenFile(path, os.O_RDWR, 0); openErr == nil {
		f.Close()
	} else {
		err = errors.Join(err, openErr)
	}
	if missing(path) {
		return explainDamage(cmd, path, &mmapfilter.CorruptError{Rule: "L1", NoLog: true})
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Sprintf("%s: its writer has died, and you may not write to it; ask someone who may to run: mmapfilter recover %s", path, path)
	}
	text := fmt.Sprintf("%s: its writer has died; run: mmapfilter recover %s", path, path)
	if cmd.Flags().Lookup("recover") != nil {
		text += ", or give --recover"
	}
	return text
}

// missing reports whether a filter has no log beside it.
func missing(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
		if _, err := os.Lstat(real + name.String()); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// manifestRegion is the region of damage to a manifest.
const manifestRegion = "manifest"

// explainDamage explains that a file breaks a rule of the format. A file that is not a filter
// breaks F1; a bad log breaks an L rule. A filter with hashes can be repaired.
func explainDamage(cmd *cobra.Command, path string, e *mmapfilter.CorruptError) string {
	repair := ""
	if _, err := os.Stat(hashesOf(path)); err == nil && cmd.Name() != "repair" {
		repair = ", or run: mmapfilter repair " + path
	}
	switch {
	case e.Region == manifestRegion:
		return fmt.Sprintf("%s: damaged %s (%s: %s); restore it, or assemble or build the set again", path, e.Region, e.Rule, e.What)
	case e.NoFilter && isSet(path):
		return fmt.Sprintf("%s: a set, but %s takes a filter, such as one of its shards", path, cmd.Name())
	case e.NoFilter:
		return path + ": not an mmapfilter file"
	case strings.HasPrefix(e.Rule, "L") && repair != "":
		return fmt.Sprintf("%s: %s; restore it%s, which keeps what is left", path, whatOfLog(path, e), repair)
	case strings.HasPrefix(e.Rule, "L"):
		return fmt.Sprintf("%s: %s; restore it, or run: mmapfilter recover --discard-log %s", path, whatOfLog(path, e), path)
	case repair != "":
		return fmt.Sprintf("%s: damaged %s at offset %d (%s: %s); restore it%s", path, e.Region, e.Offset, e.Rule, e.What, repair)
	}
	return fmt.Sprintf("%s: damaged %s at offset %d (%s: %s); restore it or build it again", path, e.Region, e.Offset, e.Rule, e.What)
}

// explainHashes explains that a filter has no hashes from which it could be built. In the command
// repair, this error means that the filter is damaged.
func explainHashes(cmd *cobra.Command, path string, err error) string {
	subject, discard := path+": ", ""
	if cmd.Name() == "repair" {
		subject = path + ": it is damaged, and "
		f, err := mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{NoRecover: true})
		if err == nil {
			f.Close()
		} else if errors.Is(err, mmapfilter.ErrNeedsRecovery) {
			discard = ", or lose what only its log has: mmapfilter recover --discard-log " + path
		}
	}
	what := whatOfHashes(path, err)
	if lost := new(recovery.HashesError); errors.As(err, &lost) && lost.NotKept {
		return subject + what + "; build it again from its keys, with --keep-hashes"
	}
	return subject + what + "; restore both files, or build the filter again from its keys" + discard
}

// whatOfLog says what is wrong with the log of a filter.
func whatOfLog(path string, e *mmapfilter.CorruptError) string {
	switch {
	case e.NoLog:
		return logOf(path) + " is missing (if the filter was renamed, its log has the old name)"
	case e.Rule == "L1" || e.Rule == "L2":
		return whatOf(path, e)
	}
	return fmt.Sprintf("%s is damaged at offset %d (%s)", logOf(path), e.Offset, whatOf(path, e))
}

// itself returns the name of the file that a symbolic link leads to. It returns the name of any
// other file as it is. The log of a filter and its hashes are beside the file itself, not beside a
// link to it.
func itself(path string) string {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	}
	return path
}

// logOf returns the name of the log of a filter.
func logOf(path string) string { return itself(path) + recovery.CurrentLog.String() }

// whatOf says what damage was found, with the file as named on the command line, which the library
// does not know.
func whatOf(path string, e *mmapfilter.CorruptError) string {
	return strings.ReplaceAll(e.What, "NAME", itself(path))
}

// explainDiskFull explains that a writer ended because the disk was full.
func explainDiskFull(cmd *cobra.Command, path string, err error) string {
	text := "disk full while writing to " + path
	if errors.Is(err, recovery.ErrNoRoom) {
		text = "disk full while growing " + logOf(path)
	}
	text += "; durable keys are kept"
	if cmd.Flags().Lookup("resume") != nil && !isSet(cmd.Flags().Arg(0)) {
		text += ", and --resume continues"
	}
	return text
}

// explainPath explains an error of the file system. Its file may be the filter or one beside it.
func explainPath(path string, e *fs.PathError) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path + " is a directory"
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && errors.Is(e, fs.ErrNotExist) {
		return fmt.Sprintf("%s: directory %s does not exist", path, dir)
	}
	name := path
	if base := filepath.Base(path); strings.HasPrefix(filepath.Base(e.Path), base+".stash") {
		name += strings.TrimPrefix(filepath.Base(e.Path), base)
	}
	return name + ": " + reason(e)
}

// hashesOf returns the name of the hashes that a filter keeps.
func hashesOf(path string) string { return itself(path) + recovery.CurrentHashes.String() }

// whatOfHashes says what is wrong with the hashes of a filter.
func whatOfHashes(path string, err error) string {
	name := hashesOf(path)
	var damage *mmapfilter.CorruptError
	var inPath *fs.PathError
	lost := new(recovery.HashesError)
	errors.As(err, &lost)
	switch {
	case lost.NotKept:
		return "it keeps no hashes"
	case lost.Lacking:
		return name + " lacks some hashes, since it was missing or could not be written to"
	case lost.Missing:
		return name + " is missing"
	case errors.As(err, &damage):
		return fmt.Sprintf("%s is damaged at offset %d (%s)", name, damage.Offset, whatOf(path, damage))
	case errors.As(err, &inPath):
		return name + ": " + reason(inPath)
	default:
		return strings.ReplaceAll(lost.Error(), "NAME", itself(path))
	}
}
