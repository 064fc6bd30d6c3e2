package peer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

// FuzzReader reads commands with our reader and, if they are arrays, with another reader. Both must
// return the same words for each array that our reader accepts. (Our reader refuses more, such as
// numbers with a plus sign and lengths above its limits.) Commands that are lines are read by our reader
// alone. It must come to an end, and keep its limits.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "*1\r\n$0\r\n\r\n*1\r\n$1\r\n*\r\n", "*0\r\n*-1\r\n\r\nPING\r\n", "*3\r\n$2\r\n\r\n\r\n$1\r\nx\r\n",
		"*1\r\n$-1\r\n", "*+1\r\n$01\r\n", "*1\r\n*1\r\n$1\r\nx\r\n", "*1\r\n:5\r\n", "GET \"a\\x41\" 'b'\r\n", "*99999999999999999999\r\n", "*2\n$1\nab",
	} {
		f.Add([]byte(seed))
	}
	limits := resp.Limits{Args: 16, Bulk: 64, Total: 128, Inline: 256}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := resp.NewReader(bytes.NewReader(stream))
		r.Limits = limits
		other := bufio.NewReader(bytes.NewReader(stream))
		compare := true
		for {
			args, err := r.Command()
			if err != nil {
				if broken := resp.ProtocolError(""); !errors.As(err, &broken) && err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Fatalf("an error of an unknown kind: %v", err)
				}
				return
			}
			total := 0
			for _, a := range args {
				total += len(a)
			}
			if len(args) == 0 || len(args) > limits.Args || total > max(limits.Total, limits.Inline) {
				t.Fatalf("%d words of %d bytes", len(args), total)
			}
			for compare {
				first, err := other.Peek(1)
				if compare = err == nil && first[0] == '*'; !compare {
					break
				}
				reply, err := server.ParseReply(other)
				if err != nil {
					t.Fatalf("%q: the other reader: %v", args, err)
				}
				if words := reply.([]any); len(words) > 0 {
					if !slices.Equal(texts(words), texts(args)) {
						t.Fatalf("%q, the other reader: %q", args, words)
					}
					break
				}
			}
		}
	})
}

func texts[T any](words []T) (all []string) {
	for _, w := range words {
		all = append(all, fmt.Sprintf("%s", any(w)))
	}
	return all
}
