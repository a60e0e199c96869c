package groups

import (
	"maps"
	"slices"
	"time"
)

// expired returns the offsets of a group that have expired at now, in order, and
// whether nothing is left without them: then an empty group goes too. An offset that
// an open transaction would change stays.
//
// Kafka: OffsetMetadataManager.cleanupExpiredOffsets, OffsetExpirationConditionImpl.
func (e *entry) expired(now time.Time, retention time.Duration) (keys []offsetKey, all bool) {
	for k, st := range e.offsets {
		at, ok := time.UnixMilli(st.CommitMs).Add(retention), true
		if e.machine != nil {
			at, ok = e.machine.expires(k.topic, st.CommitMs, retention)
		}
		if st.ExpireMs >= 0 {
			at = time.UnixMilli(st.ExpireMs)
		}
		if ok && !now.Before(at) && len(e.unstable[k]) == 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys, len(keys) == len(e.offsets) && len(e.unstable) == 0
}

// expireStep is the step that removes what of a group has expired, and the group
// when it is empty and nothing is left; a share group stays, which stands elsewhere.
func (s *shard) expireStep(now time.Time, e *entry, failed func(error)) step {
	if e == nil {
		return step{}
	}
	keys, all := e.expired(now, s.env.config.OffsetsRetention)
	whole := all && e.share() == nil && (e.machine == nil || e.machine.checkDelete() == nil)
	if len(keys) == 0 && !whole {
		return step{}
	}
	return s.removal(e, keys, whole, func(err error) {
		if err != nil {
			failed(err)
		}
	})
}

// expire begins to remove what has expired of every group of the shard, which must
// be loaded. What cannot be removed is tried again the next time. Caller holds mu.
func (w *owner) expire(now time.Time) {
	failed := func(err error) {
		w.o.Logger.Warn("expired offsets were not removed", "topic", OffsetsTopic, "partition", w.log.Index(), "error", err)
	}
	for _, id := range slices.Sorted(maps.Keys(w.shard.entries)) {
		w.run(now, w.shard.entries[id], waiting{exclusive: true, run: func(now time.Time, s *shard, e *entry) step {
			return s.expireStep(now, e, failed)
		}})
	}
}
