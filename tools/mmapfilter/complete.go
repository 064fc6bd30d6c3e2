package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
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

// noFiles lists the flags whose values are neither files nor known words.
var noFiles = []string{
	"bucket-size", "capacity", "column", "delim", "end-mark", "field", "fingerprint-bits", "key", "lines", "log-bytes", "memory", "min-keys",
	"older-than", "rate", "record-size", "seed", "shard", "shards", "sync-every", "task", "tasks", "window", "workers",
}

// addCompletion sets how the flags of a command are completed.
func addCompletion(cmd *cobra.Command) {
	values := map[string]cobra.CompletionFunc{
		"layout":    completeFrom(layoutWords()...),
		"residency": completeFrom(residencies()...),
		"dir":       completeDirs,
		"spool":     completeDirs,
		"out":       completeDirs,
	}
	for _, name := range noFiles {
		values[name] = cobra.NoFileCompletions
	}
	for name, f := range values {
		if cmd.Flags().Lookup(name) != nil {
			cmd.RegisterFlagCompletionFunc(name, f)
		}
	}
}
