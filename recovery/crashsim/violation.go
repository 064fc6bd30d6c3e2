package crashsim

import "fmt"

// A Violation is a broken oracle.
type Violation struct {
	Oracle string // O1 to O10
	What   string
	Chain  []string // the crashes that led to it
	Trace  *Trace
}

func (v *Violation) Error() string {
	s := fmt.Sprintf("%s: %s\n%s\n", v.Oracle, v.What, v.Trace)
	for _, c := range v.Chain {
		s += "  " + c + "\n"
	}
	return s
}

// A crash describes one crash, for the report.
type crash struct {
	depth, op, event int
	kind             Event
	how              string
}

func (c crash) String() string {
	when := fmt.Sprintf("at operation %d", c.op)
	if c.op < 0 {
		when = "while the filter is opened"
	}
	kind := [...]string{
		"a store", "a store to a superblock", "a store to the log", "a store that readers see",
		"the beginning of a sync", "the end of a sync", "a change of names",
	}[c.kind]
	return fmt.Sprintf("%s, after event %d, %s: %s", when, c.event, kind, c.how)
}
