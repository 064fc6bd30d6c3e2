package guard

import "testing"

// Watched are rows that know which transactions were made with a guard.
type watched struct {
	*rows
	noted uint64 // the version of the last such transaction
}

func (w *watched) Write(c Changes) error {
	err := w.rows.Write(c)
	w.noted = w.last
	return err
}

func (w *watched) Untouched() error {
	if w.noted != w.last {
		return ErrTouched
	}
	return nil
}

// TestTouched covers G7: a write to a store has bypassed the guard. So its filter is not used, even if
// the guard that noticed this is killed before there is another filter.
func TestTouched(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		for _, killed := range []bool{false, true} {
			s := &watched{rows: newRows()}
			f := beginWith(t, s.rows, s, still(t, deletes))
			f.put("a")
			s.noted = s.last
			f.end(killed)
			f.open()
			f.mustBe("serving")
			f.end(killed)
			s.commit(Changes{}, "b", true)
			r, err := OpenReadOnly(s, f.o)
			must(t, err)
			if st := r.Stats(); st.State != "off" || st.Err != ErrTouched.Error() || len(s.hidden(r)) > 0 {
				t.Errorf("for reading: %+v", st)
			}
			must(t, r.Close())
			f.open()
			f.mustBe("building")
			f.kill()
			f.open()
			f.mustBe("building")
			f.rebuild()
			f.mustBe("serving")
			f.close()
			f.open()
			f.mustBe("serving")
			f.close()
		}
	})
}
