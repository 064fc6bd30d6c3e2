package rebuild

import "testing"

// TestPace: operations wait longer while the tap does not become much shorter, up to a bound, and less
// when it does.
func TestPace(t *testing.T) {
	const done = slowEvery * replayAtOnce
	for _, c := range []struct {
		slow        int64
		before, now int
		want        int64
	}{
		{0, 10 * done, 10 * done, slowFirst},        // as many came as were done
		{0, 10 * done, 10*done - done/8, slowFirst}, // nearly as many
		{400, 10 * done, 11 * done, 600},
		{slowMost, 10 * done, 11 * done, slowMost},
		{slowMost - 1, 10 * done, 11 * done, slowMost},
		{400, 10 * done, 10*done - done*3/8, 400}, // that is enough
		{400, 10 * done, 9 * done, 300},           // none came
		{0, 10 * done, 9 * done, 0},
	} {
		if slow := pace(c.slow, c.before, c.now); slow != c.want {
			t.Errorf("%d after %d, and %d operations became %d: %d, not %d", slow, c.slow, c.before, c.now, slow, c.want)
		}
	}
}
