package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Completion of arguments and flag values, in the scripts of the command completion. By default
// they complete file names.

// completeDirs completes the name of a directory.
var completeDirs = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)

// addCompletionCommand adds the command completion, which writes to the output that root has now.
func addCompletionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, noShell
			cmd.Short = "print a completion script for bash, zsh, fish or powershell"
		}
	}
}

// noShell returns the error of the command completion if its argument is missing or names an
// unknown shell.
func noShell(cmd *cobra.Command, args []string) error {
	var shells []string
	for _, shell := range cmd.Commands() {
		shells = append(shells, shell.Name())
	}
	known := strings.Join(shells, ", ")
	if len(args) == 0 {
		return fmt.Errorf("completion needs a shell: %s", known)
	}
	return fmt.Errorf("completion does not know the shell %q; it knows %s", args[0], known)
}

// addCompletion sets how flag values are completed, by their names in the usages, such as DIR.
func addCompletion(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete := cobra.NoFileCompletions
		switch value, _ := pflag.UnquoteUsage(f); value {
		case "CHANGES", "COPY", "FILE", "FILTER", "OUT", "PLAN", "REPLICA", "NAME.set":
			return
		case "DIR":
			complete = completeDirs
		case "L":
			complete = cobra.FixedCompletions(layoutWords(), cobra.ShellCompDirectiveNoFileComp)
		case "R":
			complete = cobra.FixedCompletions(residencies(), cobra.ShellCompDirectiveNoFileComp)
		}
		cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
}
