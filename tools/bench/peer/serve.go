package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Serve lets another process measure a filter in this one. Each request is a line of r, each reply
// a line of w:
//
//	make N SEED      ok BYTES                    a new filter for N keys, without any
//	add FIRST N      ok COUNT CLOCK PROCESSOR    see [Filter.Add]; times in nanoseconds
//	ask FIRST N      ok COUNT CLOCK PROCESSOR    see [Filter.Ask]
//	remove FIRST N   ok COUNT CLOCK PROCESSOR    see [Filter.Remove]
//	bytes            ok BYTES                    the memory of the table
//
// If a request fails, the reply is "error" and a text; or "unsupported" if the filter never
// supports it. [Key.Set] makes the keys from their numbers and the seed. As in [Local], times
// leave out making the keys, and PROCESSOR is 0 where the system does not report it. The end of
// the input ends the filter.
func Serve(r io.Reader, w io.Writer, create func(n, seed uint64) (Filter, error)) error {
	var f Filter
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		reply, err := answer(&f, lines.Text(), create)
		if errors.Is(err, ErrUnsupported) {
			reply = unsupported
		} else if err != nil {
			reply = "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if _, err := fmt.Fprintln(w, reply); err != nil {
			return err
		}
	}
	return lines.Err()
}

// unsupported is the reply for [ErrUnsupported].
const unsupported = "unsupported"

func answer(f *Filter, request string, create func(n, seed uint64) (Filter, error)) (string, error) {
	verb, rest, _ := strings.Cut(request, " ")
	if *f == nil && verb != "make" {
		return "", fmt.Errorf("%q before a filter was made", request)
	}
	var a, b uint64
	if verb != "bytes" {
		if _, err := fmt.Sscanf(rest, "%d %d", &a, &b); err != nil {
			return "", fmt.Errorf("%q: two numbers are needed: %w", request, err)
		}
	}
	var do func(first, n uint64) (Count, error)
	switch verb {
	case "make":
		if *f != nil {
			return "", fmt.Errorf("%q: there is a filter", request)
		}
		made, err := create(a, b)
		if err != nil {
			return "", err
		}
		*f = made
		return fmt.Sprint("ok ", made.Bytes()), nil
	case "bytes":
		return fmt.Sprint("ok ", (*f).Bytes()), nil
	case "add":
		do = (*f).Add
	case "ask":
		do = (*f).Ask
	case "remove":
		do = (*f).Remove
	default:
		return "", fmt.Errorf("there is no request %q", request)
	}
	c, err := do(a, b)
	return fmt.Sprint("ok ", c.Keys, c.Clock.Nanoseconds(), c.Processor.Nanoseconds()), err
}
