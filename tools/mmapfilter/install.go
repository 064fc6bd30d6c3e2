package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const installHelp = `Verify the filter NEW, which may come from another machine, and rename it to
LIVE. An existing LIVE is replaced; until then, and if install is interrupted,
it stays as it is. Programs that have the old LIVE open answer "maybe" for every
key once it is replaced, until they open LIVE again; check --follow does so at
once. If NEW keeps hashes, NEW.hashes is renamed too. LIVE keeps its owner,
group and permissions.

NEW and LIVE must be on one file system: first copy NEW to a file beside LIVE.
No program may have NEW or LIVE open for writing. If LIVE is not a filter,
install fails and leaves it alone.`

func newInstallCommand() *cobra.Command {
	var quiet quiet
	cmd := &cobra.Command{Use: "install NEW LIVE", Short: "verify a filter and put it in the place of another", Long: installHelp, Args: takes(2, 2, "two filter files, NEW and LIVE"),
		Example: "mmapfilter install users.mmf.copied users.mmf"}
	quiet.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, to := args[0], args[1]
		if to == "-" {
			return errStandard
		}
		if isSet(to) {
			return &fileError{to, errors.New("a set; choose another name")}
		}
		bar := quiet.progress(cmd)
		defer bar.close()
		filter, err := mmapfilter.Install(cmd.Context(), from, to, bar.ofVerify())
		bar.close()
		if err != nil {
			return unchanged(to, ofInstall(err, from, to))
		}
		if lost := filter.Stats().GrowthErr; lost != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "mmapfilter: %s has lost the hashes that it should keep, and cannot grow\n", to)
		}
		return quiet.summarise(cmd, to, filter, 0)
	}
	return cmd
}

// ofInstall says which file an error is about.
func ofInstall(err error, from, to string) error {
	if errors.Is(err, syscall.EXDEV) {
		return &fileError{from, errors.New("it is on another file system than " + to + "; copy it to a file beside that file first, and install the copy")}
	}
	at, read := new(fs.PathError), new(mmapfilter.OpError)
	if errors.As(err, &read) && read.Path == to && errors.As(read.Err, &read) && read.Path == from || errors.As(err, &at) && at.Path == from {
		return &aboutError{from, err}
	}
	return &aboutError{to, err}
}
