package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// takes returns a function that checks that a command has from least to most arguments. The
// parameter what describes them in the error.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("%s needs %s, not %d", commandName(cmd), what, len(args))
		}
		return nil
	}
}

var (
	needFile  = takes(1, 1, "one filter file")
	needFiles = takes(1, math.MaxInt, "a filter file") // then files of keys, or more filters
)

// needFlags reports flags that a command cannot do without.
func needFlags(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); !f.Changed || f.Value.String() == "" {
			name = "--" + name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand
			}
			value, _ := pflag.UnquoteUsage(f)
			return fmt.Errorf("%s needs %s %s", commandName(cmd), name, value)
		}
	}
	return nil
}

// noArgument checks the arguments of commands that take none.
func noArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, but got %q", commandName(cmd), args[0])
	}
	return nil
}

// commandName returns the name of a command as it is typed: "set plan".
func commandName(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// unknownCommand returns the error for an unknown command.
func unknownCommand(root *cobra.Command, name string) error {
	return fmt.Errorf("unknown command %q; %s", name, suggest(root, name, "", "mmapfilter --help lists the commands"))
}

// suggest asks whether the user meant one of the commands of parent with a similar name. If
// there is none, it returns the hint. Each suggestion gets the prefix.
func suggest(parent *cobra.Command, name, prefix, hint string) string {
	parent.SuggestionsMinimumDistance = 2
	names := parent.SuggestionsFor(name)
	if name == "" || len(names) == 0 {
		return hint
	}
	return "did you mean " + prefix + strings.Join(names, " or "+prefix) + "?"
}

// flagMistake puts an error about flags in the style of other errors.
func flagMistake(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		has, hint := commandName(cmd)+" has no", "see "+cmd.CommandPath()+" --help"
		if !cmd.HasParent() {
			has = "there is no flag"
		}
		if unknown.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("%s -%s; %s", has, unknown.GetSpecifiedName(), hint)
		}
		name := unknown.GetSpecifiedName()
		return fmt.Errorf("%s --%s; %s", has, name, suggest(flagNames(cmd.Flags()), name, "--", hint))
	case errors.As(err, &missing):
		return fmt.Errorf("%s needs a value", flagName(missing.GetFlag()))
	case errors.As(err, &invalid):
		return invalidValue(invalid)
	}
	return err
}

// flagNames returns commands named like the flags, for suggest.
func flagNames(flags *pflag.FlagSet) *cobra.Command {
	names := new(cobra.Command)
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names
}

func flagName(f *pflag.Flag) string {
	if f.Name == sharedF {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

func invalidValue(e *pflag.InvalidValueError) error {
	name := flagName(e.GetFlag())
	var d demand
	switch kind := e.GetFlag().Value.Type(); {
	case errors.As(e, &d):
		return fmt.Errorf("%s %w", name, d)
	case kind == "int":
		return fmt.Errorf("%s takes one number, not %q", name, e.GetValue())
	case kind == "bool":
		return fmt.Errorf("%s takes no value, or true or false, not %q", name, e.GetValue())
	}
	return fmt.Errorf("%s %q: %w", name, e.GetValue(), e.Unwrap())
}
