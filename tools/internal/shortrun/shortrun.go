// Package shortrun parses the flags of programs that have short runs. A short run shows that a
// program works; its measurements mean nothing.
package shortrun

import (
	"flag"
	"fmt"
)

// Parse sets the flags. If that sets *short, each flag that is not given takes its value from
// values.
func Parse(flags *flag.FlagSet, args []string, short *bool, values map[string]string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there is no argument such as %q", flags.Arg(0))
	}
	if !*short {
		return nil
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range values {
		if !given[name] {
			if err := flags.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
