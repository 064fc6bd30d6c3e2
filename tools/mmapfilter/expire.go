package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const expireHelp = `Delete the keys that were added to the filter longer ago than D, and print how
many. The filter must keep hashes (see create --keep-hashes). Without
--older-than, D is what create --expire-after was given. Of a key that was added
several times, only the old copies are deleted. After add --unique or uniq has
skipped a key, these deletes wait for the next rebuild, as those of del do.

Keys from build count as added when the filter was built. A key that add
--unique or uniq skipped keeps its age. Times are exact to a second until the
filter is rebuilt, by grow, merge, repair or itself; a rebuild rounds them to at
most 64 different times. A key that may be younger than D stays. If expire is
interrupted, some keys have been deleted; run it again for the rest.`

// clock tells the time. Tests replace it.
var clock = time.Now

func newExpireCommand() *cobra.Command {
	var age time.Duration
	var json asJSON
	cmd := &cobra.Command{Use: "expire [--older-than D] FILTER", Short: "delete the old keys of a filter", Long: expireHelp, Args: needFile,
		Example: "mmapfilter expire --older-than 30d seen.mmf"}
	cmd.Flags().Func("older-than", "delete keys older than `D`, such as 30d, 2w, 36h or 1h30m", func(text string) (err error) {
		age, err = parseAge(text, time.Second) // the times of keys are exact to a second
		return err
	})
	json.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := mmapfilter.Open(args[0], &mmapfilter.OpenOptions{Checked: true, RequireHashes: true})
		if err != nil {
			return err
		}
		result := expiry{Filter: args[0]}
		if age == 0 {
			result.Expired, err = expireInTime(cmd.Context(), filter)
		} else {
			result.Expired, err = filter.ExpireBefore(cmd.Context(), clock().Add(-age))
		}
		if err != nil {
			err = &cutOff{fmt.Sprintf("%s expired before that; run it again for the rest", formatNumber(result.Expired, "key", "keys")), err}
		}
		result.Keys, result.Waiting = filter.Len(), filter.Stats().Waiting
		if err := errors.Join(err, filter.Close()); err != nil {
			return err
		}
		return json.print(cmd.OutOrStdout(), &result)
	}
	return cmd
}

// expireInTime deletes the keys that are due to expire.
func expireInTime(ctx context.Context, filter *mmapfilter.Filter) (uint64, error) {
	if filter.Stats().ExpireAfter == 0 {
		return 0, errors.New("expire needs --older-than, such as --older-than 36h, for a filter made without --expire-after")
	}
	_, err := filter.Expire(ctx)
	return filter.Stats().Expired, err // also the keys that expired since it was opened
}

// An expiry is what expire prints.
type expiry struct {
	Filter  string `json:"filter"`
	Expired uint64 `json:"expired"`
	Keys    uint64 `json:"keys"`
	Waiting uint64 `json:"waiting"` // deletes that wait for the next rebuild
}

func (e *expiry) print(w io.Writer) error {
	waiting := ""
	if e.Waiting > 0 {
		waiting = fmt.Sprintf(", %s for the next rebuild", formatNumber(e.Waiting, "delete waits", "deletes wait"))
	}
	_, err := fmt.Fprintf(w, "%s: %s expired, %s left%s\n", printable(e.Filter), formatNumber(e.Expired, "key", "keys"), formatCount(e.Keys), waiting)
	return err
}
