package sets

// Stats describe a set. For a closed set only Len, Cap and State are set. The JSON form leaves out
// the seed.
type Stats struct {
	Len           uint64  `json:"keys"`     // see Set.Len
	Cap           uint64  `json:"capacity"` // keys that the set was sized for
	Shards        int     `json:"shards"`
	Opened        int     `json:"opened"`     // shards that are open
	Failed        int     `json:"failed"`     // shards that an error limits; see Set.Err
	FileBytes     int64   `json:"file_bytes"` // of all shards, when the manifest was written
	BitsPerKey    float64 `json:"bits_per_key"`
	TargetRate    float64 `json:"target_rate"`    // requested false-positive rate
	EstimatedRate float64 `json:"estimated_rate"` // average of the open shards; see mmapfilter.Stats
	HighestRate   float64 `json:"highest_rate"`   // the highest rate of an open shard
	ResidentBytes int64   `json:"resident_bytes"` // of the open shards; -1 if unknown
	State         string  `json:"state"`          // "open"; "closed" after Close; "waiting" with OpenOptions.WaitForFile
	Swaps         uint64  `json:"swaps"`          // how often the set has switched to another manifest
	Plan          string  `json:"plan"`           // ID of the plan by which the shards were built; 32 hex digits
	Seed          uint64  `json:"-"`
	Normalisation string  `json:"normalisation"` // see Options.Normalisation
}

// Stats describes the set. It opens no shard; see [Set.OpenAll].
func (s *Set) Stats() Stats {
	st := s.state.Load()
	if st == nil {
		state := "waiting"
		if s.poll.Life.Err() != nil { // not s.mu: a Refresh may hold it for long
			state = "closed"
		}
		return Stats{Len: s.Len(), Cap: s.Cap(), State: state}
	}
	m := st.manifest
	stats := Stats{
		Len: s.Len(), Cap: m.Capacity, Shards: len(st.shards), TargetRate: m.Rate, State: "open",
		Swaps: s.swaps.Load(), Plan: m.Plan, Seed: uint64(m.Seed), Normalisation: m.Normalisation,
	}
	for i, sh := range st.shards {
		stats.FileBytes += m.Shards[i].Bytes
		if sh.failure() != nil {
			stats.Failed++
		}
		f := sh.opened()
		if f == nil {
			continue
		}
		one := f.Stats()
		stats.Opened++
		stats.EstimatedRate += one.EstimatedRate
		stats.HighestRate = max(stats.HighestRate, one.EstimatedRate)
		if stats.ResidentBytes += one.ResidentBytes; one.ResidentBytes < 0 {
			stats.ResidentBytes = -1
		}
	}
	if stats.Opened > 0 {
		stats.EstimatedRate /= float64(stats.Opened)
	}
	if stats.Len > 0 {
		stats.BitsPerKey = float64(stats.FileBytes) * 8 / float64(stats.Len)
	}
	return stats
}

// ShardStats describe a shard of a set.
type ShardStats struct {
	Path  string
	Keys  uint64 // items, as in [Set.Len]
	Bytes int64  // of the file, when the manifest was written
	Err   error  // the [*ShardError] that limits the shard, or nil; nil if it has not been opened
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
