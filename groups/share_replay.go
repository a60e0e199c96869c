package groups

import "time"

// replayShare applies a record of a share group, of types 10 to 15; a nil value
// removes. What it keeps of its arguments it copies. Kafka: the replay methods of
// GroupMetadataManager.
func (s *shard) replayShare(key, value []byte) error {
	id, r, err := decodeModernRecord(key, value)
	if err != nil {
		return err
	}
	e := s.entries[id]
	g := e.share()
	switch {
	case g == nil && r.body == nil:
		return nil // removed already
	case r.body == nil && r.kind == typeShareEpoch:
		e.machine = nil
		s.dropEmpty(e)
		return nil
	case g == nil:
		// Of another type of group nothing is left when this is written, but what a
		// cleaner has not removed yet.
		g = newShareGroup(id, s.env)
		s.ensure(id).machine = g
	}
	g.apply(time.Time{}, r)
	return nil
}
