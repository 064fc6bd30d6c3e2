package rebuild

import "testing"

// TestPace checks that operations wait longer, up to a limit, while the tap does not become much
// shorter, and less when it does.
func TestPace(t *testing.T) {
	const done = slowEvery * replayAtOnce
	for _, c := range []struct {
		slow        int64
		before, now int
		want        int64
	}{
		{0, 10 * done, 10 * done, slowFirst},        // as many operations came as were replayed
		{0, 10 * done, 10*done - done/8, slowFirst}, // nearly as many
		{400, 10 * done, 11 * done, 600},
		{slowMost, 10 * done, 11 * done, slowMost},
		{slowMost - 1, 10 * done, 11 * done, slowMost},
		{400, 10 * done, 10*done - done*3/8, 400}, // the tap becomes shorter fast enough
		{400, 10 * done, 9 * done, 300},           // no operations came
		{0, 10 * done, 9 * done, 0},
	} {
		if slow := pace(c.slow, c.before, c.now); slow != c.want {
			t.Errorf("%d after %d, and %d operations became %d: %d, not %d", slow, c.slow, c.before, c.now, slow, c.want)
		}
	}
}
