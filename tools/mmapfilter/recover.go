package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const recoverHelp = `If the process that was writing to the filter has died, recover the filter:
store the complete operations of its log, FILTER.stash, and remove the log.
Other commands that write, such as add, del and uniq, do the same. Print what
was found.

--discard-log may lose keys: any key that was inserted or moved since the last
checkpoint, even if it was synced, may be answered "certainly not". It is better
to build the filter again. On a terminal --discard-log asks for confirmation;
elsewhere it needs -y.

Exit status: 0 if the filter can be used, whether or not it needed recovery; 4
if it is damaged and was left unchanged; 8 after another error, such as a writer
that is running; 16 for an invalid command line.`

// Exit statuses of recover. They are the same as in fsck(8), except that 1 (errors corrected)
// becomes 0, since a usable filter is no failure.
const (
	recoverDamaged  = 4
	recoverFailed   = 8
	recoverMisusage = 16
)

// A recoverCommand holds the flags of recover.
type recoverCommand struct {
	json         asJSON
	discard, yes bool
}

func newRecoverCommand() *cobra.Command {
	r := new(recoverCommand)
	cmd := &cobra.Command{Use: "recover FILTER", Short: "recover a filter whose writer has died", Long: recoverHelp, RunE: r.run}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &statusError{flagMistake(cmd, err), recoverMisusage}
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := needFile(cmd, args)
		if err == nil && r.yes && !r.discard {
			err = errors.New("--yes needs --discard-log")
		}
		if err != nil {
			return &statusError{err, recoverMisusage}
		}
		return nil
	}
	r.json.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&r.discard, "discard-log", false, "recover without a log that is lost, damaged or another file's, and remove it")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "confirm --discard-log")
	return cmd
}

func (r *recoverCommand) run(cmd *cobra.Command, args []string) error {
	path := args[0]
	found, err := mmapfilter.Recover(path)
	if damage := new(mmapfilter.CorruptError); r.discard && errors.As(err, &damage) && strings.HasPrefix(damage.Rule, "L") {
		if !r.yes && !isTerminal(cmd.InOrStdin()) {
			return &statusError{&fileError{path, fmt.Errorf("--discard-log %s; confirm with --yes, since there is no terminal to ask on", cost)}, recoverMisusage}
		}
		if !r.yes && !r.agreed(cmd, path, damage) {
			return &statusError{&fileError{path, errors.New("left unchanged")}, recoverDamaged}
		}
		found, err = mmapfilter.DiscardLog(path)
	}
	switch {
	case errors.Is(err, mmapfilter.ErrCorrupt):
		return &statusError{err, recoverDamaged}
	case err != nil:
		return &statusError{err, recoverFailed}
	}
	if err := r.json.print(cmd.OutOrStdout(), &recoveryJSON{path, found.Recovered, found.Generation, found.LogBytes, found.Records,
		found.LSN, found.Torn, found.Discarded, found.Length, found.UserSeq, found.Operations}); err != nil {
		return &statusError{err, recoverFailed}
	}
	return nil
}

// cost says what discarding a log costs.
const cost = `may lose keys: any key inserted or moved since the last checkpoint, even if synced, may then be answered "certainly not"`

// agreed asks whether to discard a log.
func (r *recoverCommand) agreed(cmd *cobra.Command, path string, damage *mmapfilter.CorruptError) bool {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", path, whatOfLog(path, damage))
	fmt.Fprintf(cmd.ErrOrStderr(), "Going on without it %s.\n", cost)
	fmt.Fprint(cmd.ErrOrStderr(), "Discard it? [y/N] ")
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// A recoveryJSON is what recover prints.
type recoveryJSON struct {
	Filter       string `json:"filter"`
	Recovered    bool   `json:"recovered"`
	Generation   uint64 `json:"generation"`
	LogBytesRead int64  `json:"log_bytes_read"`
	Records      uint64 `json:"records"`
	LSN          uint64 `json:"lsn"`
	Torn         bool   `json:"torn"`
	Discarded    bool   `json:"discarded"`
	Keys         uint64 `json:"keys"`
	UserSeq      uint64 `json:"user_seq"`
	Operations   uint64 `json:"operations"`
}

func (r *recoveryJSON) print(w io.Writer) error {
	t := newTable(w)
	path := printable(r.Filter)
	switch {
	case r.Discarded:
		t.row("recovered", "%s, without its log; its writer had died in generation %d", path, r.Generation)
		t.row("lost", "operations since the last checkpoint that are not in %s", path)
	case r.Recovered:
		t.row("recovered", "%s; its writer had died in generation %d", path, r.Generation)
		torn := ""
		if r.Torn {
			torn = "; an incomplete operation was dropped"
		}
		t.row("log", "%s read, %s replayed, up to LSN %d%s", roundSize(r.LogBytesRead), formatNumber(r.Records, "record", "records"), r.LSN, torn)
	default:
		t.row("nothing to do", "%s was closed cleanly, in generation %d", path, r.Generation)
	}
	t.row("keys", "%s", formatCount(r.Keys))
	name, text := describeSequence(r.UserSeq, r.Operations)
	t.row(name, "%s", text)
	return t.flush()
}
