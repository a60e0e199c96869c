package groups

// replayConsumer applies a record of a consumer group, of types 3 to 8 and 16; a nil
// value removes. What it keeps of its arguments it copies. Kafka: the replay methods
// of GroupMetadataManager.
func (s *shard) replayConsumer(key, value []byte) error {
	id, r, err := decodeModernRecord(key, value)
	if err != nil {
		return err
	}
	e := s.entries[id]
	g := e.consumer()
	switch {
	case g == nil && r.body == nil:
		return nil // removed already
	case r.body == nil && r.kind == typeConsumerEpoch:
		e.machine = nil
		s.dropEmpty(e)
		return nil
	case g == nil:
		// Of another type of group nothing is left when this is written, but what a
		// cleaner has not removed yet.
		g = newConsumerGroup(id, s.env)
		g.enter(s.ensure(id))
	}
	g.apply(r)
	return nil
}
