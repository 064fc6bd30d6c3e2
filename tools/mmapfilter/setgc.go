package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const setGCHelp = `Remove the shards in DIR that no NAME.set in DIR names, with their logs, hashes
and .built files, and print their names. Such shards come from sets that have
been replaced, and from builds that were never assembled. Readers keep the
shards that they have open. If a reader of a replaced set does not follow the
set, it answers "maybe", with an error, for a removed shard that it had not
opened yet. As long as DIR/NAME.set exists, its shards stay.

DIR must have a NAME.set. Do not run gc while a set is being built in DIR, or if
a NAME.set elsewhere names shards in DIR: gc would remove these shards.`

func newSetGCCommand() *cobra.Command {
	var dry bool
	var quiet quiet
	cmd := &cobra.Command{Use: "gc DIR", Short: "remove the shards that no NAME.set in a directory names", Long: setGCHelp,
		Args: takes(1, 1, "one directory"), ValidArgsFunction: completeDirs, Example: "mmapfilter set gc --dry-run ."}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what would be removed")
	cmd.Flags().BoolVarP((*bool)(&quiet), "quiet", "q", false, "do not print what is removed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := args[0]
		left, err := sets.Superseded(dir)
		if err != nil {
			return ofTask(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return ofTask(err)
		}
		manifest := func(e os.DirEntry) bool { return filepath.Ext(e.Name()) == manifestSuffix }
		if len(left) > 0 && !slices.ContainsFunc(entries, manifest) {
			return &fileError{dir, errors.New("it has shards, but no NAME.set; if no manifest elsewhere names these shards, remove them by hand")}
		}
		var bytes int64
		for _, path := range left {
			info, err := os.Lstat(path)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err == nil && !dry {
				err = os.Remove(path)
			}
			if err != nil {
				return ofTask(err)
			}
			bytes += info.Size()
			if _, err := fmt.Fprintln(quiet.out(cmd), printable(path)); err != nil {
				return err
			}
		}
		what := "removed"
		if dry {
			what = "to be removed"
		}
		_, err = fmt.Fprintf(quiet.out(cmd), "%s: %s %s, %s bytes\n", printable(dir), formatNumber(len(left), "file", "files"), what, formatCount(bytes))
		return err
	}
	return cmd
}
