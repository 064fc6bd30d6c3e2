package server

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// row matches a row of the table in KVROCKS.md: how often, the command, Kvrocks' reply, and ours.
var row = regexp.MustCompile("(?m)^\\| (?:(\\d+) × )?`(.+?)` \\| `(.+?)` \\| (?:same|`(.+?)`) \\| .*\\|$")

// TestKvrocks sends the commands of the table in KVROCKS.md, and compares the replies with the table.
func TestKvrocks(t *testing.T) {
	text, err := os.ReadFile("KVROCKS.md")
	must(t, err)
	rows := row.FindAllStringSubmatch(string(text), -1)
	if lines := strings.Count(string(text), "\n| ") - 1; len(rows) != lines {
		t.Fatalf("%d of %d rows can be read", len(rows), lines)
	}
	_, p := startOne(t, Config{Rate: 1e-6})
	for _, r := range rows {
		times, _ := strconv.Atoi(r[1])
		times = max(1, times)
		command, want := r[2], r[4]
		if want == "" {
			want = r[3]
		}
		for i := 1; i <= times; i++ {
			got := strings.ReplaceAll(p.do(strings.ReplaceAll(command, "#", strconv.Itoa(i))), "\n", " ")
			failure, fails := strings.CutPrefix(want, "-")
			if fails && i < times || got == want || fails && got[0] == '-' && strings.Contains(got, failure) {
				continue
			}
			t.Errorf("%s: %s; the table says %s", command, got, want)
			break
		}
	}
}
