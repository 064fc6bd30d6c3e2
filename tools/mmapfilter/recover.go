package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const recoverHelp = `Usage: mmapfilter recover [--json] FILTER

Recover the filter if the process that was writing to it has died: put the whole
operations of its log, FILTER.stash, into it, and remove the log. Most other
commands do the same where they may write to it; this says what was found.

      --json   print a JSON object

Exit status: 0 if the filter can be used, recovered or not; 4 if it is damaged
and was left as it is; 8 after another error, such as a writer that lives; 16
for a command line that cannot be.`

// The exit status of recover, as of fsck(8), apart from what that has for a file
// system that was mended: a filter that can be used is no failure.
const (
	recoverDamaged  = 4
	recoverFailed   = 8
	recoverMisusage = 16
)

func newRecoverCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "recover", Long: recoverHelp}
	misused := func(cmd *cobra.Command, err error) error {
		return &statusError{err, recoverMisusage}
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused(cmd, flagMistake(cmd, err)) })
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := needFile(cmd, args); err != nil {
			return misused(cmd, err)
		}
		return nil
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		found, err := mmapfilter.Recover(args[0])
		switch {
		case errors.Is(err, mmapfilter.ErrCorrupt):
			return &statusError{err, recoverDamaged}
		case err != nil:
			return &statusError{err, recoverFailed}
		}
		print := printRecovery
		if asJSON {
			print = printRecoveryJSON
		}
		if err := print(cmd.OutOrStdout(), args[0], found); err != nil {
			return &statusError{err, recoverFailed}
		}
		return nil
	}
	return cmd
}

func printRecovery(w io.Writer, path string, r mmapfilter.Recovery) error {
	t := newTable(w)
	if r.Recovered {
		t.row("recovered", "%s, whose writer had died in generation %d", path, r.Generation)
		torn := ""
		if r.Torn {
			torn = "; an operation that was cut off was dropped"
		}
		t.row("log", "%s read, %s replayed, up to LSN %d%s", roundSize(r.LogBytes), formatNumber(r.Records, "record", "records"), r.LSN, torn)
	} else {
		t.row("nothing to do", "%s was closed in order, in generation %d", path, r.Generation)
	}
	t.row("keys", "%s", formatCount(r.Length))
	t.row("sequence", "%s", formatSequence(r.UserSeq, r.Operations))
	return t.flush()
}

// formatSequence says how far a filter has come: the last number that its user
// gave it, and what followed.
func formatSequence(seq, operations uint64) string {
	return fmt.Sprintf("%s, and %s after it", formatCount(seq), formatNumber(operations, "operation", "operations"))
}

// A recoveryJSON is the object that recover --json prints.
type recoveryJSON struct {
	Filter       string `json:"filter"`
	Recovered    bool   `json:"recovered"`
	Generation   uint64 `json:"generation"`
	LogBytesRead int64  `json:"log_bytes_read"`
	Records      uint64 `json:"records"`
	LSN          uint64 `json:"lsn"`
	Torn         bool   `json:"torn"`
	Keys         uint64 `json:"keys"`
	UserSeq      uint64 `json:"user_seq"`
	Operations   uint64 `json:"operations"`
}

func printRecoveryJSON(w io.Writer, path string, r mmapfilter.Recovery) error {
	return printJSON(w, recoveryJSON{path, r.Recovered, r.Generation, r.LogBytes, r.Records, r.LSN, r.Torn, r.Length, r.UserSeq, r.Operations})
}
