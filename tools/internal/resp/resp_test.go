package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// commands reads all commands of a stream.
func commands(in io.Reader, limits Limits) (all [][]string, err error) {
	r := NewReader(in)
	r.Limits = limits
	for {
		args, err := r.Command()
		if err != nil {
			return all, err
		}
		var words []string
		for _, a := range args {
			words = append(words, string(a))
		}
		all = append(all, words)
	}
}

var small = Limits{Args: 4, Bulk: 8, Total: 12, Inline: 20}

func TestReader(t *testing.T) {
	broken := func(text string) error { return ProtocolError(text) }
	count, bulk, line := broken("invalid multibulk length"), broken("invalid bulk length"), broken("too big inline request")
	for _, c := range []struct {
		in   string
		want [][]string
		err  error
	}{
		{"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", [][]string{{"GET", "k"}}, io.EOF},
		{"*1\r\n$0\r\n\r\n", [][]string{{""}}, io.EOF},
		{"*1\r\n$2\r\n\r\n\r\nPING\r\n", [][]string{{"\r\n"}, {"PING"}}, io.EOF},
		{"*0\r\n*-1\r\n\r\nPING\n", [][]string{{"PING"}}, io.EOF},
		{"GET  k\t v\r\n", [][]string{{"GET", "k", "v"}}, io.EOF},
		{`"a b" 'c"\'' x\y` + "\n", [][]string{{"a b", `c"'`, `x\y`}}, io.EOF},
		{`"\x41\n\"\q" "" ''` + "\n", [][]string{{"A\n\"q", "", ""}}, io.EOF},
		{"\"a\n", nil, errQuotes},
		{"'a'b\n", nil, errQuotes},
		{"*5\r\n", nil, count},
		{"*9223372036854775807\r\n", nil, count},
		{"*99999999999999999999\r\n", nil, count},
		{"*+1\r\n", nil, count},
		{"*01\r\n", nil, count},
		{"* 1\r\n", nil, count},
		{"*\r\n", nil, count},
		{"*1\n", nil, count},
		{"*" + strings.Repeat("1", 100), nil, count},
		{"*1\r\n$9\r\n", nil, bulk},
		{"*1\r\n$-1\r\n", nil, bulk},
		{"*1\r\n$9223372036854775807\r\n", nil, bulk},
		{"*2\r\n$8\r\n12345678\r\n$5\r\n", nil, bulk},
		{"*1\r\n:1\r\n", nil, broken(`expected '$', got ':'`)},
		{"*1\r\n*1\r\n", nil, broken(`expected '$', got '*'`)},
		{"*1\r\n$1\r\nkk\r\n", nil, broken("a bulk string does not end where its length says")},
		{strings.Repeat("a", 21), nil, line},
		{"a b c d e\n", nil, line},
		{"*1\r\n$3\r\nGE", nil, io.ErrUnexpectedEOF},
		{"*2\r\n$3\r\nGET\r\n", nil, io.ErrUnexpectedEOF},
		{"GET k", nil, io.ErrUnexpectedEOF},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(c.in), "bytes": iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := commands(in, small)
			if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.err) {
				t.Errorf("%s %q: %q, %v; want %q, %v", name, c.in, got, err, c.want, c.err)
			}
		}
	}
}

// TestReaderLongLine reads a line that is longer than the buffer.
func TestReaderLongLine(t *testing.T) {
	long := strings.Repeat("x", 3*readBytes)
	got, err := commands(strings.NewReader("ECHO "+long+"\r\nPING\r\n"), Known)
	if want := [][]string{{"ECHO", long}, {"PING"}}; !reflect.DeepEqual(got, want) || err != io.EOF {
		t.Errorf("%d commands, %v", len(got), err)
	}
}

// TestReaderLongCommands reads commands of few words and of many, which do not end where the buffer
// does.
func TestReaderLongCommands(t *testing.T) {
	var in strings.Builder
	var want [][]string
	for _, n := range []int{1, 3, 1000, 2, 20_000, 1} {
		command := []string{"MADD"}
		fmt.Fprintf(&in, "*%d\r\n$4\r\nMADD\r\n", n+1)
		for i := range n {
			word := strings.Repeat(strconv.Itoa(i), 50_000/n)
			command = append(command, word)
			fmt.Fprintf(&in, "$%d\r\n%s\r\n", len(word), word)
		}
		want = append(want, command)
	}
	for range 2 {
		got, err := commands(strings.NewReader(in.String()), Known)
		if !reflect.DeepEqual(got, want) || err != io.EOF {
			t.Errorf("%d commands, %v", len(got), err)
		}
		in.WriteString("*1\r\n$4\r\nPING\r\n")
		want = append(want, []string{"PING"})
	}
}

// TestReaderMemory sends headers that promise as much data as is allowed, and almost no data. The reader
// must not allocate what they promise.
func TestReaderMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const clients = 100
	for range clients {
		if _, err := commands(strings.NewReader("*1048576\r\n$33554432\r\nxx"), Known); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / clients; got > 2*(readBytes+stepBytes) {
		t.Errorf("a client that promises much takes %d bytes", got)
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "-7": -7, "999999999999999999": 999999999999999999} {
		if n, ok := Number([]byte(text)); !ok || n != want {
			t.Errorf("%s: %d, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "-", "-0", "00", "01", "+1", " 1", "1 ", "1x", "9223372036854775807", "-01"} {
		if n, ok := Number([]byte(text)); ok {
			t.Errorf("%q is %d", text, n)
		}
	}
}

func TestWriter(t *testing.T) {
	write := func(w *Writer) {
		w.Simple("O\nK")
		w.Error("ERR a\r\nb")
		w.Int(-5)
		w.Bulk("a\r\nb")
		w.Null()
		w.Bool(true)
		w.Bool(false)
		w.Map(1)
		w.Array(0)
	}
	for _, c := range []struct {
		three bool
		want  string
	}{
		{false, "+O K\r\n-ERR a  b\r\n:-5\r\n$4\r\na\r\nb\r\n$-1\r\n:1\r\n:0\r\n*2\r\n*0\r\n"},
		{true, "+O K\r\n-ERR a  b\r\n:-5\r\n$4\r\na\r\nb\r\n_\r\n#t\r\n#f\r\n%1\r\n*0\r\n"},
	} {
		var out bytes.Buffer
		w := NewWriter(&out)
		w.RESP3 = c.three
		if write(w); out.Len() > 0 {
			t.Error("written before Flush")
		}
		if err := w.Flush(); err != nil || out.String() != c.want {
			t.Errorf("%q, %v; want %q", out.String(), err, c.want)
		}
	}
}

// TestWriterLong writes to a peer that is gone, until it is time to flush.
func TestWriterLong(t *testing.T) {
	gone := errors.New("gone")
	w := NewWriter(failing{gone})
	n := 0
	for ; !w.Long(); n++ {
		w.Int(1)
	}
	if n != longBytes/4 {
		t.Errorf("Long is true after %d replies", n)
	}
	for range 2 {
		if err := w.Flush(); err != gone || w.Long() {
			t.Error(err)
		}
		w.Bulk(strings.Repeat("x", 3*longBytes))
	}
	if w.Flush(); cap(w.kept) > 2*longBytes {
		t.Errorf("%d bytes are kept", cap(w.kept))
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
