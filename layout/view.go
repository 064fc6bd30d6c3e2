package layout

// NewView splits the words of a file, from OffRuntime on, into the parts that lookups
// read.
func NewView(words []uint64, g Geometry) View {
	const stash, region = WordStash - WordRuntime, WordRegion - WordRuntime
	return ViewOf(words[region:region+uint64(g.RegionBytes/8)], words[stash:stash+StashWords], words[:RuntimeWords])
}

// ViewOf returns the view of parts that come from different places.
func ViewOf(region, stash, runtime []uint64) View {
	v := &View{Region: region, Stash: stash, Runtime: runtime}
	v.at = v.At
	return *v
}

// source returns At as the source of words for [Lookup].
func (v *View) source() func(word uint64) uint64 {
	if v.at == nil { // put together by hand
		return v.At
	}
	return v.at
}

// At returns a word of a file by its number. It is the source of words for
// [Lookup] if the file is in memory.
func (v *View) At(word uint64) uint64 {
	switch {
	case word >= WordRegion:
		return loadWord(v.Region, word-WordRegion)
	case word >= WordStash:
		return loadWord(v.Stash, word-WordStash)
	}
	return loadWord(v.Runtime, word-WordRuntime)
}

// NewTable returns the Table for a geometry.
func NewTable(g Geometry) Table { return specs[g.Kind].Bind(g.Params, g.Lines) }
