//go:build faults

package main

import (
	"flag"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout/mistake"
)

// mistakeFlag adds the flag that has every process make a mistake.
func mistakeFlag(flags *flag.FlagSet) {
	flags.Func("mistake", "`name` of the mistake to make", func(name string) error {
		for _, m := range mistake.All() {
			if m.String() == name {
				mistake.Current = m
				return nil
			}
		}
		return fmt.Errorf("must be one of %q", mistake.All())
	})
}

// mistakeArgs is what tells a process of it.
func mistakeArgs() []string {
	if mistake.Current == mistake.None {
		return nil
	}
	return []string{"-mistake", mistake.Current.String()}
}
