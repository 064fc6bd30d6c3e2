package server

import (
	"testing"
	"time"
)

// TestReplyBeforeRest sends a command and the beginning of another, or an empty line: the reply does not
// wait for the rest.
func TestReplyBeforeRest(t *testing.T) {
	_, addr := start(t, Config{})
	p := dial(t, addr)
	p.conn.SetDeadline(time.Now().Add(time.Minute))
	for _, rest := range []string{"\r\n", "*0\r\n", "*1\r\n$4\r\nPI"} {
		p.send("PING\r\n" + rest)
		if got := p.reply()[0]; got != "+PONG" {
			t.Fatal(got)
		}
	}
	p.want("NG", "+PONG")
}
