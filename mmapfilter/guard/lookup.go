package guard

// Absent reports whether a key is certainly not in the store. If it returns false, ask the store, and
// tell the guard the answer with [Guard.Found].
func (g *Guard) Absent(key []byte) bool { return g.absent(key, nil) }

// A View is the instant at which a reading transaction, or a snapshot of the store, began.
type View uint64

// View returns the present instant. Call it before the transaction or snapshot begins.
func (g *Guard) View() View { return View(g.views.Load()) }

// AbsentIn is [Guard.Absent] for a transaction or snapshot. It may have keys that were deleted since,
// and that the filter has dropped: if the filter has dropped any, the answer is false.
func (g *Guard) AbsentIn(v View, key []byte) bool { return g.absent(key, &v) }

func (g *Guard) absent(key []byte, v *View) bool {
	if !g.serving.Load() {
		g.counts.unfiltered.Add(1)
		return false
	}
	if !g.covers(key) {
		return false
	}
	h := g.filter.Hash(key)
	c := g.counts.of(h)
	// A hash moves from incoming or from the overflow to the next of these places, and is there
	// before it leaves the one before: so ask them in this order. The view changes before a key leaves
	// the filter: so compare it after.
	if g.positions != nil && g.positions.incoming.has(h) || g.overflow.has(h) || g.filter.ContainsHash(h) {
		c.passed.Add(1)
		return false
	}
	if v != nil && *v != g.View() {
		g.counts.unfiltered.Add(1)
		return false
	}
	c.skipped.Add(1)
	return true
}

// Found says whether the store has a key for which [Guard.Absent] returned false.
func (g *Guard) Found(key []byte, there bool) { g.found(key, there) }

// FoundIn is [Guard.Found] after [Guard.AbsentIn].
func (g *Guard) FoundIn(v View, key []byte, there bool) {
	if v == g.View() { // otherwise the filter may not have been asked
		g.found(key, there)
	}
}

func (g *Guard) found(key []byte, there bool) {
	if !g.serving.Load() || !g.covers(key) {
		return
	}
	c := g.counts.of(uint64(len(key)))
	if there {
		c.truePositives.Add(1)
	} else if c.falsePositives.Add(1)%considerEvery == 0 && g.tooManyPass() {
		g.kick()
	}
}
