package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const verifyHelp = `Usage: mmapfilter verify [--json] FILTER

Read the whole filter and check it against the rules of the format. For each
damage, print the part of the file, the offset in bytes, what is wrong and which
rule that breaks. If the
filter keeps hashes, compare its keys with them, which finds a changed bit even
in a file without checksums. Lost hashes do not count as damage. Nor do keys
that are not found since a del of a key that was not there took what stood for
them (rule C6): verify counts them, and the next rebuild, such as grow, gives
them back.

FILTER may be a set, NAME.set: verify reads all its shards, several at a time,
and prints the first damage of each.

verify writes nothing, so it fails if the writer of the filter has died, unless
--recover is given.

      --json      print a JSON object
      --recover   recover the filter first if its writer has died

Exit status: 0 if the file is intact, 1 if it is damaged, 2 if it could not be
checked.`

func newVerifyCommand() *cobra.Command {
	var asJSON, recover bool
	cmd := &cobra.Command{Use: "verify", Long: verifyHelp, Args: needFile}
	addRecoverFlag(cmd.Flags(), &recover)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		bar := newProgress(cmd.ErrOrStderr())
		defer bar.close()
		if set, _ := sets.IsSet(args[0]); set {
			return verifySet(cmd, args[0], recover, asJSON, bar)
		}
		verify := func() (mmapfilter.Report, error) {
			return mmapfilter.Verify(cmd.Context(), args[0], func(done, total int64) {
				bar.show("verifying", done, total, nil)
			})
		}
		report, err := verify()
		if recover && errors.Is(err, mmapfilter.ErrNeedsRecovery) {
			if _, failed := mmapfilter.Recover(args[0]); failed != nil {
				return errors.Join(err, failed) // damage to a log is not damage to the filter
			}
			report, err = verify()
		}
		bar.close()
		var damage *mmapfilter.CorruptError
		if err != nil && (!errors.As(err, &damage) || foreign(damage)) {
			return err
		}
		if damage != nil && len(report.Damage) == 0 {
			report.Damage = append(report.Damage, damage)
		}
		print := printReport
		if asJSON {
			print = printReportJSON
		}
		if err := print(cmd.OutOrStdout(), args[0], report); err != nil {
			return err
		}
		if len(report.Damage) > 0 {
			return errNo
		}
		return nil
	}
	return cmd
}

// printReport prints the report or, if there is damage, only the damage: the other counts of a
// damaged file mean nothing.
func printReport(w io.Writer, path string, r mmapfilter.Report) error {
	for _, d := range r.Damage {
		if _, err := fmt.Fprintf(w, "%s: %s\n", printable(path), describeDamage(d.Region, d.Offset, ruleOf(path, d))); err != nil {
			return err
		}
	}
	if len(r.Damage) > 0 {
		return nil
	}
	t := newTable(w)
	t.row("file", "%s", formatSize(r.FileBytes))
	t.row("keys", "%s, %s", formatCount(r.Items), formatNumber(r.StashLen, "stash entry", "stash entries"))
	if r.Sealed {
		t.row("checksums", "%s", formatCount(r.Chunks))
	} else {
		t.row("checksums", "none: the file has been written to and not sealed since")
	}
	differ := r.NotFound | r.Strays | r.LeftOut | r.Waiting // the items from what the hashes mean
	switch {
	case r.HashesErr != nil:
		t.row("hashes", "not compared: %s", whatOfHashes(path, r.HashesErr))
	case differ == 0 && r.Hashes > 0:
		t.row("hashes", "%s, of these keys and no others", formatCount(r.Hashes))
	case differ > 0:
		t.row("hashes", "%s, once it is rebuilt; what it has now fits them", formatCount(r.Hashes))
	}
	if r.NotFound|r.Strays > 0 {
		t.row("not found", "%s: %s; a rebuild gives them back", formatNumber(r.NotFound, "key", "keys"),
			formatNumber(r.Strays, "delete of a key that was not in took an item of others", "deletes of keys that were not in took items of others"))
	}
	if r.LeftOut > 0 {
		t.row("left out", "%s, which may have been there", formatNumber(r.LeftOut, "key", "keys"))
	}
	if r.Waiting > 0 {
		t.row("waiting", "%s, for the next rebuild", formatNumber(r.Waiting, "delete", "deletes"))
	}
	t.row("damage", "none")
	return t.flush()
}

// A reportJSON is the object that verify --json prints.
type reportJSON struct {
	Filter    string       `json:"filter"`
	Whole     bool         `json:"whole"`
	FileBytes int64        `json:"file_bytes"`
	Sealed    bool         `json:"sealed"`
	Chunks    int64        `json:"chunks"`
	Keys      *uint64      `json:"keys"`      // null if damage makes the count meaningless
	StashLen  *int         `json:"stash_len"` // likewise
	Hashes    uint64       `json:"hashes"`
	NotFound  uint64       `json:"not_found"`
	Strays    uint64       `json:"strays"`
	LeftOut   uint64       `json:"left_out"`
	Waiting   uint64       `json:"waiting"`
	HashesErr string       `json:"hashes_err"`
	Damage    []damageJSON `json:"damage"`
}

type damageJSON struct {
	Region string `json:"region"`
	Offset int64  `json:"offset"`
	Rule   string `json:"rule"`
}

func printReportJSON(w io.Writer, path string, r mmapfilter.Report) error {
	object := reportJSON{
		Filter: path, Whole: len(r.Damage) == 0, FileBytes: r.FileBytes, Sealed: r.Sealed, Chunks: r.Chunks,
		Hashes: r.Hashes, NotFound: r.NotFound, Strays: r.Strays, LeftOut: r.LeftOut, Waiting: r.Waiting, Damage: []damageJSON{},
	}
	if r.HashesErr != nil {
		object.HashesErr = whatOfHashes(path, r.HashesErr)
	}
	for _, d := range r.Damage {
		object.Damage = append(object.Damage, damageJSON{d.Region, d.Offset, ruleOf(path, d)})
	}
	if object.Whole {
		object.Keys, object.StashLen = &r.Items, &r.StashLen
	}
	return printJSON(w, object)
}
