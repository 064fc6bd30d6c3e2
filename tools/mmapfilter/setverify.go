package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

// verifySet verifies all shards of a set and prints which are wrong.
func verifySet(cmd *cobra.Command, path string, recover, asJSON bool, bar *progress) error {
	verify := func() (sets.Report, error) {
		return sets.Verify(cmd.Context(), path, func(done, total int64) { bar.show("verifying", done, total, nil) })
	}
	report, err := verify()
	if recover {
		again := false
		for _, shard := range report.Errors {
			if errors.Is(shard, mmapfilter.ErrNeedsRecovery) {
				if _, failed := mmapfilter.Recover(shard.Path); failed != nil {
					return &sets.ShardError{Shard: shard.Shard, Path: shard.Path, Err: failed}
				}
				again = true
			}
		}
		if again {
			report, err = verify()
		}
	}
	bar.close()
	object := setReportJSON{Filter: path, FileBytes: report.FileBytes, Shards: report.Shards, Damage: []shardDamageJSON{}}
	var damage *mmapfilter.CorruptError
	switch {
	case err == nil:
		object.Whole, object.Keys = true, &report.Items
	case len(report.Errors) > 0 && cmd.Context().Err() == nil:
		for _, shard := range report.Errors {
			object.Damage = append(object.Damage, newShardDamage(cmd, path, shard))
		}
	case errors.As(err, &damage) && damage.Region == manifestRegion:
		object.Damage = append(object.Damage, shardDamageJSON{Region: damage.Region, Offset: damage.Offset, Rule: damage.Rule, Path: path})
	default:
		return err
	}
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), &object)
	} else {
		err = object.print(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	unknown := false
	for _, d := range object.Damage {
		if d.Error != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "mmapfilter: %s: %s\n", path, d.Error)
			unknown = true
		}
	}
	switch {
	case unknown:
		return errReported
	case !object.Whole:
		return errNo
	}
	return nil
}

// A setReportJSON is the object that verify --json prints for a set.
type setReportJSON struct {
	Filter    string            `json:"filter"`
	Whole     bool              `json:"whole"`
	FileBytes int64             `json:"file_bytes"`
	Shards    int               `json:"shards"`
	Keys      *uint64           `json:"keys"` // null if damage makes the count meaningless
	Damage    []shardDamageJSON `json:"damage"`
}

// A shardDamageJSON says what is wrong with a shard: the first damage found or, if it could not be
// checked, the error.
type shardDamageJSON struct {
	Shard  *int   `json:"shard"` // null if the manifest is damaged
	Path   string `json:"path"`
	Region string `json:"region"`
	Offset int64  `json:"offset"`
	Rule   string `json:"rule"`
	Error  string `json:"error"`
}

func newShardDamage(cmd *cobra.Command, path string, e *sets.ShardError) shardDamageJSON {
	d := shardDamageJSON{Shard: &e.Shard, Path: shardPath(path, e.Path)}
	damage := new(mmapfilter.CorruptError)
	switch {
	case errors.As(e.Err, &damage):
		d.Region, d.Offset, d.Rule = damage.Region, damage.Offset, ruleOf(d.Path, damage)
	case errors.Is(e.Err, sets.ErrOtherSet), errors.Is(e.Err, fs.ErrNotExist):
		text := strings.TrimPrefix(explainShard(cmd, path, e), fmt.Sprintf("shard %d: ", e.Shard))
		d.Region, d.Rule = "file", "S4: "+strings.TrimPrefix(text, d.Path+": ")
	default:
		d.Error = strings.ReplaceAll(explainShard(cmd, path, e), "\n", "; ")
	}
	return d
}

func (r *setReportJSON) print(w io.Writer) error {
	for _, d := range r.Damage {
		which := ""
		switch {
		case d.Error != "":
			continue
		case d.Shard != nil:
			which = fmt.Sprintf("shard %d: ", *d.Shard)
		}
		if _, err := fmt.Fprintf(w, "%s: %s%s\n", printable(d.Path), which, describeDamage(d.Region, d.Offset, d.Rule)); err != nil {
			return err
		}
	}
	if !r.Whole {
		return nil
	}
	t := newTable(w)
	t.row("files", "%s", formatSize(r.FileBytes))
	t.row("shards", "%s", formatCount(r.Shards))
	t.row("keys", "%s", formatCount(*r.Keys))
	t.row("damage", "none")
	return t.flush()
}
