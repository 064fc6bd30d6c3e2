package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/httpfile"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const verifyHelp = `Read the whole filter and check it against the rules of the format. For each
damage, print the part of the file, the offset in bytes, what is wrong and the
broken rule. If the filter keeps hashes, verify also compares its keys with
them, which finds a changed bit even in a file without checksums.

Two things are not damage: lost hashes, and keys that are not found because a
del of a key that was not in the filter took their item (rule C6). verify counts
these keys; the next rebuild, such as grow, gives them back.

FILTER may be the https:// URL of a sealed or clean filter. Then verify reads
the file into memory, and compares no hashes. FILTER may be a set, NAME.set.
Then verify reads all its shards, several at a time, and prints the first damage
of each. verify writes nothing to the filter, except with --recover.

Exit status: 0 if the file is intact, 1 if it is damaged, 2 if it could not be
checked.`

// A verifyCommand holds the flags of verify.
type verifyCommand struct {
	json    asJSON
	recover bool
}

func newVerifyCommand() *cobra.Command {
	c := new(verifyCommand)
	cmd := &cobra.Command{Use: "verify FILTER", Short: "check a filter for damage", Long: verifyHelp, Args: needFile, RunE: c.run}
	addRecoverFlag(cmd.Flags(), &c.recover)
	c.json.addTo(cmd.Flags())
	return cmd
}

func (c *verifyCommand) run(cmd *cobra.Command, args []string) error {
	path := args[0]
	bar := newProgress(cmd.ErrOrStderr())
	defer bar.close()
	verify := verifyFilter
	if isSet(path) {
		verify = verifySet
	}
	r, err := verify(cmd, path, bar)
	if c.recover && len(r.dead) > 0 {
		for _, e := range r.dead {
			if _, failed := mmapfilter.Recover(e.Path); failed != nil && e.Path != path {
				return &sets.ShardError{Shard: e.Shard, Path: e.Path, Err: failed}
			} else if failed != nil {
				return errors.Join(err, failed) // damage to a log is not damage to the filter
			}
		}
		r, err = verify(cmd, path, bar)
	}
	bar.close()
	if err != nil {
		return err
	}
	if err := c.json.print(cmd.OutOrStdout(), &r); err != nil {
		return err
	}
	for _, d := range r.Damage {
		if d.ofShard != nil && d.Error != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "mmapfilter: %s: %s\n", path, d.Error)
			err = errReported
		}
	}
	if err == nil && !r.Whole {
		return errNo
	}
	return err
}

// A report is what verify prints of a filter or a set.
type report struct {
	Filter      string   `json:"filter"`
	Whole       bool     `json:"whole"`
	FileBytes   int64    `json:"file_bytes"`
	Shards      int      `json:"shards,omitempty"` // of a set
	Keys        *uint64  `json:"keys"`             // null if damage makes the count meaningless
	*fileReport          // of a filter
	Damage      []damage `json:"damage"`

	dead []*sets.ShardError // shards that must be recovered first
}

// A fileReport is what a report says of a filter, but not of a set.
type fileReport struct {
	mmapfilter.Report
	StashLen  *int   `json:"stash_len"` // null if keys is
	HashesErr string `json:"hashes_err"`
}

// A damage says what is wrong with a file.
type damage struct {
	*ofShard        // of a set
	Region   string `json:"region"`
	Offset   int64  `json:"offset"`
	Rule     string `json:"rule"`
	What     string `json:"what"`

	text string // all of this, as it is printed
}

// ofShard says which shard is damaged or, if it could not be checked, why.
type ofShard struct {
	Shard *int   `json:"shard"` // null if the manifest is damaged
	Path  string `json:"path"`
	Error string `json:"error"`
}

func newDamage(path string, e *mmapfilter.CorruptError) damage {
	what := whatOf(path, e)
	return damage{Region: e.Region, Offset: e.Offset, Rule: e.Rule, What: what,
		text: fmt.Sprintf("damaged %s at offset %d: %s (rule %s)", e.Region, e.Offset, what, e.Rule)}
}

// verifyFilter verifies a filter.
func verifyFilter(cmd *cobra.Command, path string, bar *progress) (r report, err error) {
	is, err := verifyAt(cmd, path, bar)
	found := new(mmapfilter.CorruptError)
	switch {
	case errors.Is(err, mmapfilter.ErrNeedsRecovery):
		r.dead = []*sets.ShardError{{Path: path}}
		return r, err
	case err != nil && (!errors.As(err, &found) || found.NoFilter):
		return r, err
	case err != nil && len(is.Damage) == 0:
		is.Damage = append(is.Damage, found)
	}
	path = shownURL(path)
	r = report{Filter: path, Whole: len(is.Damage) == 0, FileBytes: is.FileBytes, fileReport: &fileReport{Report: is}, Damage: []damage{}}
	if is.HashesErr != nil {
		r.fileReport.HashesErr = whatOfHashes(path, is.HashesErr)
	}
	for _, e := range is.Damage {
		d := newDamage(path, e)
		d.text = path + ": " + d.text
		r.Damage = append(r.Damage, d)
	}
	if r.Whole {
		r.Keys, r.fileReport.StashLen = &is.Items, &is.StashLen
	}
	return r, nil
}

// verifyAt verifies the filter at a path or a URL.
func verifyAt(cmd *cobra.Command, path string, bar *progress) (r mmapfilter.Report, err error) {
	if !isURL(path) {
		return mmapfilter.Verify(cmd.Context(), path, bar.ofVerify())
	}
	if err := refuseWithURL(cmd.Flags(), "recover"); err != nil {
		return r, err
	}
	if isSetURL(path) {
		return r, errors.New("verify cannot read a set from a URL; verify its shards")
	}
	file, err := httpfile.Open(cmd.Context(), path, nil)
	if err != nil {
		return r, err
	}
	defer file.Close()
	return mmapfilter.VerifyReaderAt(cmd.Context(), file, file.Size(), bar.ofVerify())
}

// verifySet verifies all shards of a set.
func verifySet(cmd *cobra.Command, path string, bar *progress) (r report, err error) {
	is, err := sets.Verify(cmd.Context(), path, bar.ofVerify())
	r = report{Filter: path, Whole: err == nil, FileBytes: is.FileBytes, Shards: is.Shards, Damage: []damage{}}
	found := new(mmapfilter.CorruptError)
	switch {
	case err == nil:
		r.Keys = &is.Items
	case len(is.Errors) > 0 && cmd.Context().Err() == nil:
		for _, e := range is.Errors {
			r.Damage = append(r.Damage, damageOfShard(cmd, path, e))
			if errors.Is(e, mmapfilter.ErrNeedsRecovery) {
				r.dead = append(r.dead, e)
			}
		}
	case errors.As(err, &found) && found.Region == manifestRegion:
		d := newDamage(path, found)
		d.ofShard, d.text = &ofShard{Path: path}, path+": "+d.text
		r.Damage = append(r.Damage, d)
	default:
		return r, err
	}
	return r, nil
}

// damageOfShard says what is wrong with a shard.
func damageOfShard(cmd *cobra.Command, path string, e *sets.ShardError) (d damage) {
	file := shardPath(path, e.Path)
	which := &ofShard{Shard: &e.Shard, Path: file}
	found, other := new(mmapfilter.CorruptError), new(sets.OtherSetError)
	switch {
	case errors.As(e.Err, &found):
		d = newDamage(file, found)
	case errors.As(e.Err, &other):
		d = newDamage(file, &mmapfilter.CorruptError{Region: layout.RegionFile, Rule: "S4", What: "it is " + other.Is})
	case errors.Is(e.Err, fs.ErrNotExist):
		d = newDamage(file, &mmapfilter.CorruptError{Region: layout.RegionFile, Rule: "S4", What: reason(fs.ErrNotExist)})
	default:
		which.Error = explainShard(cmd, path, e)
	}
	d.ofShard, d.text = which, fmt.Sprintf("%s: shard %d: %s", file, e.Shard, d.text)
	return d
}

// print prints the report or, if there is damage, only the damage, because the other counts of a
// damaged file mean nothing.
func (r *report) print(w io.Writer) error {
	for _, d := range r.Damage {
		if d.Rule == "" { // its error is printed elsewhere
			continue
		}
		if _, err := fmt.Fprintln(w, printable(d.text)); err != nil {
			return err
		}
	}
	if !r.Whole {
		return nil
	}
	t := newTable(w)
	if r.fileReport == nil {
		t.row("files", "%s", formatSize(r.FileBytes))
		t.row("shards", "%s", formatCount(r.Shards))
		t.row("keys", "%s", formatCount(*r.Keys))
	} else {
		r.fileReport.rows(t)
	}
	t.row("damage", "none")
	return t.flush()
}

// rows prints what a report says of a filter that is not damaged.
func (c *fileReport) rows(t table) {
	r := &c.Report
	t.row("file", "%s", formatSize(r.FileBytes))
	t.row("keys", "%s, %s", formatCount(r.Items), formatNumber(r.StashLen, "stash entry", "stash entries"))
	if r.Sealed {
		t.row("checksums", "%s", formatCount(r.Chunks))
	} else {
		t.row("checksums", "none: the file has been written to and not sealed since")
	}
	differ := r.NotFound | r.Strays | r.LeftOut | r.Waiting // not 0 if the filter differs from the history of its hashes
	switch {
	case r.HashesErr != nil:
		t.row("hashes", "not compared: %s", c.HashesErr)
	case differ == 0 && r.Hashes > 0:
		t.row("hashes", "%s, of these keys and no others", formatCount(r.Hashes))
	case differ > 0:
		t.row("hashes", "%s; the filter fits them, and has exactly these keys after a rebuild", formatCount(r.Hashes))
	}
	if r.NotFound|r.Strays > 0 {
		t.row("not found", "%s: %s; a rebuild gives them back", formatNumber(r.NotFound, "key", "keys"),
			formatNumber(r.Strays, "delete of a key that was not in the filter took an item of another key", "deletes of keys that were not in the filter took items of other keys"))
	}
	if r.LeftOut > 0 {
		t.row("left out", "%s, which may have been there", formatNumber(r.LeftOut, "key", "keys"))
	}
	if r.Waiting > 0 {
		t.row("waiting", "%s, for the next rebuild", formatNumber(r.Waiting, "delete", "deletes"))
	}
}
