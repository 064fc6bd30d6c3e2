package main

import (
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

// noFiles lists the flags whose values are neither files nor known words.
var noFiles = []string{
	"bucket-size", "capacity", "column", "delim", "end-mark", "field", "fingerprint-bits", "key", "lines", "log-bytes", "memory",
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
