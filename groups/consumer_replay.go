package groups

// replayConsumer applies a record of a consumer group, of types 3 to 8 and 16; a nil
// value removes. What it keeps of its arguments it copies.
func (s *shard) replayConsumer(recordType int16, key, value []byte) error {
	return nil
}
