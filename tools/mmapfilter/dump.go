package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/spf13/cobra"
)

const dumpHelp = `Print the raw parts of the filter, to debug it or this program: the superblocks,
the runtime page, the stash, and where the log ends and why. dump locks,
recovers and changes nothing, and the file may be damaged. While a writer is
running, the parts may be from different instants.

"go doc github.com/mmapfilter/mmapfilter/layout" explains the fields.

Exit status: 0 however damaged the filter is, 2 if the file is not a filter or
cannot be read.`

func newDumpCommand() *cobra.Command {
	d := new(dump)
	cmd := &cobra.Command{Use: "dump FILTER", Short: "print the raw parts of a filter file, for debugging", Long: dumpHelp, Args: needFile}
	cmd.Flags().BoolVar(&d.records, "log", false, "print every segment and record of the log")
	cmd.Flags().BoolVar(&d.showSeed, "show-seed", false, "print the seed of the hash, which may be a secret")
	cmd.Flags().Func("lines", "print lines `FROM-TO` of the region in hex, a word a row", func(text string) (err error) {
		d.from, d.to, err = parseRange(text)
		d.lines = true
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.w = cmd.OutOrStdout()
		return d.run(args[0])
	}
	return cmd
}

// parseRange parses FROM-TO or one number.
func parseRange(text string) (from, to uint64, err error) {
	first, last, found := strings.Cut(text, "-")
	if !found {
		last = first
	}
	if from, err = strconv.ParseUint(first, 10, 63); err == nil {
		to, err = strconv.ParseUint(last, 10, 63)
	}
	if err != nil || from > to {
		return 0, 0, demand("takes numbers of lines, such as 7 or 0-7")
	}
	return from, to, nil
}

func (d *dump) run(path string) error {
	f, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := d.part(f, 0, layout.OffRuntime)
	if err != nil {
		return err
	}
	damage := new(layout.CorruptError)
	if _, _, _, err := layout.Newest(head); errors.As(err, &damage) && damage.NoFilter {
		return err
	}
	d.printf("%s: %s bytes", printable(path), formatCount(size))
	if err := d.file(f, size); err != nil {
		return err
	}
	if err := d.logFiles(path); err != nil {
		return err
	}
	return d.err
}
