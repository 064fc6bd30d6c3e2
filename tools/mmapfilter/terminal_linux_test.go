package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a terminal. What is written to typed is read from terminal.
func openTerminal(t *testing.T) (typed, terminal *os.File) {
	t.Helper()
	typed, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("NOT TESTED: questions on a terminal: ", err)
	}
	t.Cleanup(func() { typed.Close() })
	n, err := unix.IoctlGetInt(int(typed.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(typed.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip("NOT TESTED: questions on a terminal: ", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return typed, terminal
}

// TestDiscardLogAsks checks that recover, on a terminal, says what may be lost if the log of a dead
// writer is discarded, and discards the log only if the answer is yes. It must not ask if there is
// nothing to discard.
func TestDiscardLogAsks(t *testing.T) {
	t.Chdir(t.TempDir())
	const question = "d.mmf: d.mmf.stash is missing (if the filter was renamed, its log has the old name)\nGoing on without it may lose keys: " +
		"any key inserted or moved since the last checkpoint, even if synced, may then be answered \"certainly not\".\nDiscard it? [y/N] "
	must(t, "", "create", "-n", "1k", "f.mmf")
	for _, c := range []struct {
		answer string
		exit   int
	}{
		{"\n", recoverDamaged}, {"n\n", recoverDamaged}, {"yo\n", recoverDamaged}, {"\x04", recoverDamaged},
		{"y\n", exitYes}, {" YES \n", exitYes},
	} {
		noError(t, leaveDead("f.mmf", "d.mmf", "a\n"))
		os.Remove("d.mmf.stash")
		before, _ := os.ReadFile("d.mmf")
		typed, terminal := openTerminal(t)
		typed.WriteString(c.answer)
		var stdout, stderr bytes.Buffer
		exit := run(context.Background(), []string{"recover", "--discard-log", "d.mmf"}, terminal, &stdout, &stderr)
		after, _ := os.ReadFile("d.mmf")
		asked, said := strings.CutPrefix(stderr.String(), question)
		if exit != c.exit || !said || (exit != 0) != bytes.Equal(before, after) || (exit != 0) != (asked == "mmapfilter: d.mmf: left unchanged\n") {
			t.Errorf("%q: exit %d, %s%s", c.answer, exit, &stdout, &stderr)
		}
	}
	noError(t, os.WriteFile("text", []byte("a\n"), 0o666))
	for name, want := range map[string]string{"f.mmf": "", "text": "mmapfilter: text: not an mmapfilter file\n"} {
		_, terminal := openTerminal(t)
		var stderr bytes.Buffer
		run(context.Background(), []string{"recover", "--discard-log", name}, terminal, &bytes.Buffer{}, &stderr)
		if stderr.String() != want {
			t.Errorf("%s: %s, want %s", name, &stderr, want)
		}
	}
}

// TestBarAfterInterrupt draws a bar on a terminal that shows ^C meanwhile. Each time that the bar is
// drawn, and at the end, the cursor must go to the start of the line.
func TestBarAfterInterrupt(t *testing.T) {
	shown, terminal := openTerminal(t)
	noError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60}))
	p := newProgress(&messageWriter{terminal})
	p.start = time.Now().Add(-progressDelay)
	p.show("hashing", 1, 2, nil)
	var text []byte
	read := func(until string) {
		t.Helper()
		for !bytes.Contains(text, []byte(until)) {
			b := make([]byte, 4096)
			n, err := shown.Read(b)
			noError(t, err)
			text = append(text, b[:n]...)
		}
	}
	read("hashing")
	terminal.WriteString("^C")
	p.close()
	terminal.WriteString("end")
	read("end")
	const redraw = "\x1b[J"
	if got := string(text); !strings.HasPrefix(got, "\r") || !strings.HasSuffix(got, "\rend") ||
		strings.Count(got, redraw) < 1 || strings.Count(got, redraw) != strings.Count(got, redraw+"\r") {
		t.Errorf("%q", got)
	}
}
