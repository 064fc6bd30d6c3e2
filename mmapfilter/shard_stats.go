package mmapfilter

// ShardStats describe a shard of a set.
type ShardStats struct {
	Path  string
	Keys  uint64 // items, as in [Set.Len]
	Bytes int64  // of the file, when the manifest was written
	Err   error  // what limits the shard, a [*ShardError], or nil; also nil if it has not been opened
}

// ShardStats describes all shards, in the order of their numbers. It opens none; see [Set.OpenAll].
func (s *Set) ShardStats() []ShardStats {
	st := s.state.Load()
	if st == nil {
		return nil
	}
	all := make([]ShardStats, len(st.shards))
	for i, sh := range st.shards {
		entry := st.manifest.Shards[i]
		all[i] = ShardStats{Path: sh.path, Keys: entry.Keys, Bytes: entry.Bytes, Err: sh.failure()}
		if f := sh.opened(); f != nil {
			all[i].Keys = f.Len()
		}
	}
	return all
}
