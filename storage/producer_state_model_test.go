package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
)

// naiveStep is one append in the history that the model replays from the start for every question.
type naiveStep struct {
	h      batchHeader
	marker bool
	m      record.Marker
	// used is the verification that a batch of data ended.
	used *naiveVerification
}

// naiveVerification says what a verification stands for, and which one of the state it is.
type naiveVerification struct {
	epoch    int16
	lowest   int32
	v2, lost bool
	is       *Verification
}

// naiveProducers answers from the history alone.
type naiveProducers struct {
	steps []naiveStep
	hw    int64
	// refused are, of producers that a cut left without any step, the first step they had.
	refused map[int64]batchHeader
	// asked are the verifications that stand; all, every one there was.
	asked map[int64]*naiveVerification
	all   []*naiveVerification
}

// seen is what the history says of one producer.
type seen struct {
	epoch       int16
	coordinator int32
	timestamp   int64
	txn         int64
	batches     []batchHeader
}

func (n *naiveProducers) producers() map[int64]*seen {
	all := map[int64]*seen{}
	for _, s := range n.steps {
		p := all[s.h.producer]
		if p == nil {
			p = &seen{epoch: -1, coordinator: -1, txn: -1}
			all[s.h.producer] = p
		}
		if p.epoch != s.h.epoch {
			p.epoch, p.batches = s.h.epoch, nil
		}
		p.timestamp = s.h.timestamp
		if s.marker {
			p.coordinator, p.txn = s.m.CoordinatorEpoch, -1
			continue
		}
		p.batches = append(p.batches, s.h)
		if s.h.transactional && p.txn < 0 {
			p.txn = s.h.offset
		}
	}
	return all
}

// start is what startVerification must do: "epoch", "open" or "ok".
func (n *naiveProducers) start(h batchHeader, v2 bool, is *Verification) (string, *naiveVerification) {
	if p := n.producers()[h.producer]; p != nil && h.epoch < p.epoch {
		return "epoch", nil
	} else if p != nil && p.txn >= 0 && h.epoch == p.epoch {
		return "open", nil
	}
	v := n.asked[h.producer]
	if v == nil {
		v = &naiveVerification{epoch: h.epoch, lowest: h.sequence, v2: v2, is: is}
		n.asked[h.producer] = v
		n.all = append(n.all, v)
	}
	if h.epoch > v.epoch {
		v.epoch, v.lowest = h.epoch, h.sequence
	}
	if h.epoch == v.epoch {
		v.lowest = min(v.lowest, h.sequence)
	}
	return "ok", v
}

func (n *naiveProducers) add(s naiveStep) {
	v := n.asked[s.h.producer]
	switch {
	case v == nil:
	case s.marker && !(v.v2 && v.epoch == s.h.epoch):
		delete(n.asked, s.h.producer)
	case !s.marker && s.h.transactional:
		s.used = v
		delete(n.asked, s.h.producer)
	}
	n.steps = append(n.steps, s)
	delete(n.refused, s.h.producer)
}

func (n *naiveProducers) cut(to int64) {
	before := n.steps
	n.steps = slices.DeleteFunc(slices.Clone(before), func(s naiveStep) bool { return s.h.offset >= to })
	left := n.producers()
	for _, s := range slices.Backward(before[len(n.steps):]) {
		if now := n.asked[s.h.producer]; s.used != nil && now != nil {
			if now.lost = true; now.epoch == s.used.epoch {
				now.lowest = min(now.lowest, s.used.lowest)
			}
		} else if s.used != nil {
			s.used.lost = true
			n.asked[s.h.producer] = s.used
		}
	}
	for _, s := range slices.Backward(before) {
		switch {
		case left[s.h.producer] != nil:
		case s.marker:
			delete(n.refused, s.h.producer)
		default:
			n.refused[s.h.producer] = s.h
		}
	}
}

// firstUnstable scans for the first offset of a transaction whose marker is not below the high watermark.
func (n *naiveProducers) firstUnstable() int64 {
	first, open := int64(-1), map[int64]int64{}
	bound := func(o int64) {
		if first < 0 || o < first {
			first = o
		}
	}
	for _, s := range n.steps {
		start, isOpen := open[s.h.producer]
		switch {
		case s.marker && isOpen:
			if s.h.offset >= n.hw {
				bound(start)
			}
			delete(open, s.h.producer)
		case !s.marker && s.h.transactional && !isOpen:
			open[s.h.producer] = s.h.offset
		}
	}
	for _, o := range open {
		bound(o)
	}
	return first
}

// verdict is what a client's batch with a verification, or nil, must meet: "dup N", "epoch", "unverified", "lost",
// "sequence", "txn" or "ok".
func (n *naiveProducers) verdict(h batchHeader, v *naiveVerification) string {
	p := n.producers()[h.producer]
	now := n.asked[h.producer]
	verified := func() string {
		switch {
		case !h.transactional || p != nil && p.txn >= 0 && p.epoch == h.epoch || now != nil && now == v:
		case now != nil && now.lost && v == nil:
			return "lost"
		default:
			return "unverified"
		}
		if now != nil && (h.sequence > now.lowest || now.v2 && h.sequence != 0 && (p == nil || len(p.batches) == 0)) {
			return "sequence"
		}
		return ""
	}
	if p == nil {
		if wrong := verified(); wrong != "" {
			return wrong
		}
		if r, ok := n.refused[h.producer]; ok && h.epoch == r.epoch && h.sequence > r.sequence {
			return "sequence"
		}
		return "ok"
	}
	if h.epoch == p.epoch {
		for _, b := range p.batches[max(0, len(p.batches)-producerBatches):] {
			if b.sequence == h.sequence && b.count == h.count {
				return fmt.Sprint("dup ", b.offset)
			}
		}
	}
	if h.epoch < p.epoch {
		return "epoch"
	}
	if wrong := verified(); wrong != "" {
		return wrong
	}
	switch {
	case h.epoch > p.epoch && h.sequence != 0:
		return "sequence"
	case h.epoch == p.epoch && len(p.batches) == 0 && h.sequence != 0:
		return "sequence"
	case h.epoch == p.epoch && len(p.batches) > 0:
		last := p.batches[len(p.batches)-1]
		if uint32(h.sequence) != (uint32(last.sequence)+uint32(last.count))&0x7fffffff {
			return "sequence"
		}
	}
	if p.txn >= 0 && !h.transactional {
		return "txn"
	}
	return "ok"
}

func (s *producerState) verdict(h batchHeader, v *naiveVerification) string {
	var o AppendOptions
	if v != nil {
		o.Verification = v.is
	}
	m, dup, err := s.check(h.batch(), o)
	switch {
	case dup:
		return fmt.Sprint("dup ", m.firstOffset())
	case err == nil:
		return "ok"
	}
	if strings.Contains(err.Error(), "not known to be part") {
		return "unverified"
	}
	for name, want := range map[string]error{"epoch": ErrInvalidProducerEpoch, "sequence": ErrOutOfOrderSequence, "txn": ErrInvalidTxnState, "lost": ErrStorage} {
		if errors.Is(err, want) {
			return name
		}
	}
	return err.Error()
}

func TestProducerStateEqualsItsHistory(t *testing.T) {
	verdicts := map[string]int{}
	for range 30 {
		seed := rand.Uint64()
		if err := producerModel(seed, 400, verdicts); err != nil {
			t.Fatalf("producerModel(%d, 400): %v", seed, err)
		}
	}
	for _, v := range []string{"ok", "dup", "epoch", "unverified", "lost", "sequence", "txn"} {
		if verdicts[v] == 0 {
			t.Errorf("no batch met %q: %v", v, verdicts)
		}
	}
}

// producerModel runs random steps and counts what the batches met.
func producerModel(seed uint64, steps int, verdicts map[string]int) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	var s producerState
	n := naiveProducers{refused: map[int64]batchHeader{}, asked: map[int64]*naiveVerification{}}
	var end int64
	for step := range steps {
		h := batchHeader{
			producer: rng.Int64N(4), epoch: int16(rng.IntN(2)), sequence: int32(rng.IntN(4)), count: 1 + int32(rng.IntN(3)),
			offset: end, timestamp: int64(step), transactional: rng.IntN(2) == 0,
		}
		// Most batches continue where their producer is, some of them around the wrap.
		if p := n.producers()[h.producer]; p != nil && rng.IntN(8) > 0 {
			h.epoch = p.epoch
			h.transactional = h.transactional || p.txn >= 0 && rng.IntN(10) > 0
			if len(p.batches) > 0 {
				last := p.batches[len(p.batches)-1]
				h.sequence = record.AddSequence(last.sequence, last.count)
			} else {
				h.sequence = 0
			}
		} else if p == nil && rng.IntN(2) == 0 {
			h.sequence = 0x7fffffff - int32(rng.IntN(6))
		} else if p != nil && len(p.batches) > 0 && rng.IntN(2) == 0 {
			again := p.batches[rng.IntN(len(p.batches))]
			h.epoch, h.sequence, h.count = again.epoch, again.sequence, again.count
		}
		switch action := rng.IntN(20); {
		case action < 4:
			v2 := rng.IntN(2) == 0
			if rng.IntN(8) == 0 {
				h.sequence = 0
			}
			is, err := s.startVerification(h.producer, h.epoch, h.sequence, v2, int64(step))
			want, v := n.start(h, v2, is)
			switch {
			case want == "epoch" && !errors.Is(err, ErrInvalidProducerEpoch), want != "epoch" && err != nil,
				(want == "ok") != (is != nil), want == "ok" && v.is != is:
				return fmt.Errorf("step %d: startVerification(%+v) = %p, %v, want %q, %+v", step, h, is, err, want, v)
			}
		case action < 13:
			v := n.asked[h.producer]
			if len(n.all) > 0 && rng.IntN(4) == 0 {
				v = n.all[rng.IntN(len(n.all))]
			} else if rng.IntN(4) == 0 {
				v = nil
			}
			want := n.verdict(h, v)
			verdicts[strings.Fields(want)[0]]++
			if got := s.verdict(h, v); got != want {
				return fmt.Errorf("step %d: check(%+v) = %q, want %q; verification %+v, asked %+v", step, h, got, want, v, n.asked[h.producer])
			}
			if want == "ok" {
				s.update(h.batch())
				n.add(naiveStep{h: h})
				end += int64(h.count)
			}
		case action < 16:
			h.count, h.transactional = 1, true
			m := record.Marker{Commit: rng.IntN(2) == 0, CoordinatorEpoch: int32(step / 100)}
			if s.checkMarker(h.batch(), m, 1) != nil {
				continue
			}
			p := n.producers()[h.producer]
			c, ok := s.endTxn(h.batch(), m, h.timestamp)
			if wantOK := p != nil && p.txn >= 0; ok != wantOK || ok && (c.FirstOffset != p.txn || c.LastOffset != end || c.Aborted == m.Commit) {
				return fmt.Errorf("step %d: marker %+v ended %+v, %t, history has %+v", step, m, c, ok, p)
			}
			n.add(naiveStep{h: h, marker: true, m: m})
			end++
		case action < 18:
			n.hw += rng.Int64N(end - n.hw + 1)
			s.onHighWatermark(n.hw)
		case action < 19:
			// Cut between batches, at or above the high watermark.
			var places []int64
			for _, st := range n.steps {
				if st.h.offset >= n.hw {
					places = append(places, st.h.offset)
				}
			}
			to := end
			if len(places) > 0 {
				to = places[rng.IntN(len(places))]
			}
			if !s.cut(to) {
				return fmt.Errorf("step %d: cut(%d) failed at high watermark %d", step, to, n.hw)
			}
			n.cut(to)
			end = to
		default:
			// A snapshot keeps the last batch of each; from then on the older ones are no duplicates.
			entries, err := DecodeProducerSnapshot(encodeProducerSnapshot(s.snapshot()))
			if err != nil {
				return fmt.Errorf("step %d: %v", step, err)
			}
			r := restoreProducerState(entries, end, 0, 1<<60)
			if got, want := r.infos(), s.infos(); !reflect.DeepEqual(got, want) {
				return fmt.Errorf("step %d: restored %+v, want %+v", step, got, want)
			}
			if got, want := r.open, s.open; !slices.Equal(got, want) {
				return fmt.Errorf("step %d: restored open transactions %+v, want %+v", step, got, want)
			}
		}
		got, ok := s.firstUnstable()
		if want := n.firstUnstable(); ok != (want >= 0) || ok && got != want {
			return fmt.Errorf("step %d: first unstable offset %d, %t, want %d at high watermark %d", step, got, ok, want, n.hw)
		}
		all := n.producers()
		if len(all) != s.count() {
			return fmt.Errorf("step %d: %d producers, want %d", step, s.count(), len(all))
		}
		for _, i := range s.infos() {
			p := all[i.ProducerID]
			if p == nil || i.Epoch != p.epoch || i.CoordinatorEpoch != p.coordinator || i.TxnFirstOffset != p.txn || i.LastTimestamp != p.timestamp {
				return fmt.Errorf("step %d: producer %+v, want %+v", step, i, p)
			}
		}
	}
	return nil
}
