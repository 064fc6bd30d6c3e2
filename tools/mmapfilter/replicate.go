package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
	"github.com/spf13/cobra"
)

const replicateHelp = `Keep FILTER a copy of the filter that publish, or a program with package
replica, has at URL, until a signal comes. If there is no FILTER, a snapshot is
taken first. Programs may look keys up in FILTER meanwhile, but not write to it.

What fails is tried again, and a message says so; a download goes on where it
was cut off. Exit status: 0 after --once, or 2 after an error.`

func newReplicateCommand() *cobra.Command {
	var quiet quiet
	var tokenFile string
	var once bool
	cmd := &cobra.Command{Use: "replicate URL FILTER", Short: "keep a copy of a filter on another machine up to date", Long: replicateHelp,
		Args: takes(2, 2, "a URL and a filter file"), Example: "mmapfilter replicate https://filters.example.org users.mmf"}
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "send the token, the first line of `FILE`")
	cmd.Flags().BoolVar(&once, "once", false, "end as soon as FILTER has all that the filter at URL has")
	quiet.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		token, err := readToken(tokenFile)
		if err != nil {
			return err
		}
		opts, told := new(replica.Options), ""
		if token != "" {
			opts.Header = http.Header{"Authorization": {authorization(token)}}
		}
		opts.OnError = func(err error) {
			if err.Error() != told {
				told = err.Error()
				fmt.Fprintln(cmd.ErrOrStderr(), "mmapfilter:", told)
			}
		}
		r, err := replica.Follow(cmd.Context(), args[0], args[1], opts)
		if err != nil {
			return &aboutError{args[1], err}
		}
		return errors.Join(watch(cmd.Context(), r, once, quiet.out(cmd)), r.Close())
	}
	return cmd
}

// watch waits until a replica has everything that the filter at the URL has, and prints its position.
// Then it waits for the end of ctx, unless once is set.
func watch(ctx context.Context, r *replica.Replica, once bool, out io.Writer) error {
	for told := false; ; {
		if s := r.Stats(); !told && !s.Primary.IsZero() && s.LagOperations == 0 && r.Err() == nil {
			told = true
			if _, err := fmt.Fprintf(out, "%s, position %v\n", formatNumber(r.Len(), "key", "keys"), s.Position); err != nil || once {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
