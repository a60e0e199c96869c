package groups

// replayClassic applies a record of type 2: a classic group's metadata, removed by a
// nil value. What it keeps of its arguments it copies.
func (s *shard) replayClassic(key, value []byte) error {
	return nil
}
