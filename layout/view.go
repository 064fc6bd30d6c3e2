package layout

// NewView splits the words of a file, from OffRuntime on, into the parts that lookups
// read.
func NewView(words []uint64, g Geometry) View {
	const stash, region = WordStash - WordRuntime, WordRegion - WordRuntime
	return View{
		Runtime: words[:RuntimeWords],
		Stash:   words[stash : stash+StashWords],
		Region:  words[region : region+uint64(g.RegionBytes/8)],
	}
}

// At returns a word of a file by its number. It is the source of words for
// [Table.Lookup] if the file is in memory.
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
