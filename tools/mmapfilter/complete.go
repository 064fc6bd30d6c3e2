package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Completion of arguments and of the values of flags, for the scripts that the command
// completion prints. The default is to complete file names.

// completeFrom completes one of the given words.
func completeFrom(words ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeDirs completes the name of a directory.
func completeDirs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// addCompletionCommand adds the command completion, which writes to the present output of root.
func addCompletionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, noShell
			cmd.Short = "print a completion script for bash, zsh, fish or powershell"
		}
	}
}

// noShell is the error of the command completion for a shell that it does not know, or without one.
func noShell(cmd *cobra.Command, args []string) error {
	var shells []string
	for _, shell := range cmd.Commands() {
		shells = append(shells, shell.Name())
	}
	known := strings.Join(shells, ", ")
	if len(args) == 0 {
		return fmt.Errorf("completion needs a shell: %s", known)
	}
	return fmt.Errorf("completion knows no shell %q; it knows %s", args[0], known)
}

// takesFile lists the flags whose values are files. Other values are completed from words or not at all.
var takesFile = []string{"filter", "keep", "like", "output", "plan", "seed-file"}

// addCompletion sets how the flags of a command are completed.
func addCompletion(cmd *cobra.Command) {
	values := map[string]cobra.CompletionFunc{
		"layout":    completeFrom(layoutWords()...),
		"residency": completeFrom(residencies()...),
		"dir":       completeDirs,
		"spool":     completeDirs,
		"out":       completeDirs,
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete := values[f.Name]
		if complete == nil && !slices.Contains(takesFile, f.Name) {
			complete = cobra.NoFileCompletions
		}
		if complete != nil {
			cmd.RegisterFlagCompletionFunc(f.Name, complete)
		}
	})
}
