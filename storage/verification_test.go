package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// started is startVerification of a client of which nothing is wrong.
func (s *producerState) started(t *testing.T, id int64, epoch int16, sequence int32, v2 bool) *Verification {
	t.Helper()
	v, err := s.startVerification(id, epoch, sequence, v2, 0)
	if err != nil {
		t.Fatalf("verification of producer %d, epoch %d, sequence %d: %v", id, epoch, sequence, err)
	}
	return v
}

// checks is check of a client's batch with this verification.
func (s *producerState) checks(h batchHeader, v *Verification) error {
	_, _, err := s.check(h.batch(), AppendOptions{Verification: v})
	return err
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (got == nil) != (want == nil) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestTransactionBeginsWithItsVerification(t *testing.T) {
	first, second := batchHeader{producer: 1, transactional: true}, batchHeader{producer: 1, sequence: 1, offset: 1, transactional: true}
	var s producerState
	wantError(t, "without a verification", s.checks(first, nil), ErrInvalidTxnState)
	v := s.started(t, 1, 0, 0, false)
	if v == nil {
		t.Fatal("no verification although no transaction is open")
	}
	wantError(t, "with none while there is one", s.checks(first, nil), ErrInvalidTxnState)
	wantError(t, "with that of another producer", s.checks(first, s.started(t, 2, 0, 0, false)), ErrInvalidTxnState)
	wantError(t, "with its own", s.checks(first, v), nil)
	if again := s.started(t, 1, 0, 0, false); again != v {
		t.Error("asking again gives another verification, which would fail the one that is under way")
	}
	s.update(first.batch())
	if v := s.started(t, 1, 0, 1, false); v != nil {
		t.Errorf("the transaction is open, but has to be verified: %+v", v)
	}
	wantError(t, "in the open transaction", s.checks(second, nil), nil)
	s.update(second.batch())
	s.endTxn(batchHeader{producer: 1, offset: 2, transactional: true}.batch(), commit, 0)
	next := batchHeader{producer: 1, sequence: 2, offset: 3, transactional: true}
	wantError(t, "after the marker", s.checks(next, nil), ErrInvalidTxnState)
	wantError(t, "after the marker, with the verification of before", s.checks(next, v), ErrInvalidTxnState)
	if _, dup, err := s.check(second.batch(), AppendOptions{}); !dup || err != nil {
		t.Errorf("a duplicate needs no verification: duplicate %t, %v", dup, err)
	}
	if _, _, err := s.check(next.batch(), AppendOptions{Unverified: true}); err != nil {
		t.Errorf("without verification, as configured: %v", err)
	}
	if _, _, err := s.check(batchHeader{producer: 1, sequence: 2, offset: 3}.batch(), AppendOptions{}); err != nil {
		t.Errorf("a batch that is not transactional: %v", err)
	}
}

// A marker comes between the coordinator's answer and the append. The next verification of the same producer is about
// another transaction, and the old answer must not pass for it.
func TestMarkerEndsAVerification(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known=%t", known), func(t *testing.T) {
			var s producerState
			b := batchHeader{producer: 1, offset: 9, transactional: true}
			if known {
				appendAll(t, &s, batchHeader{producer: 1, transactional: true})
				s.endTxn(batchHeader{producer: 1, offset: 1, transactional: true}.batch(), commit, 0)
				b.sequence = 1
			}
			old := s.started(t, 1, 0, b.sequence, false)
			s.endTxn(batchHeader{producer: 1, offset: 5, transactional: true}.batch(), abort, 0)
			if len(s.verifications) != 0 {
				t.Errorf("%d verifications after the marker", len(s.verifications))
			}
			if !known { // the marker left its epoch, and with it the rule that it begins at 0
				b.sequence = 0
			}
			wantError(t, "the answer of before", s.checks(b, old), ErrInvalidTxnState)
			now := s.started(t, 1, 0, b.sequence, false)
			wantError(t, "the answer of before, while the next is asked for", s.checks(b, old), ErrInvalidTxnState)
			wantError(t, "the next", s.checks(b, now), nil)
		})
	}
}

func TestLateMarkerOfVersion2LeavesTheNextVerification(t *testing.T) {
	for _, c := range []struct {
		name   string
		v2     bool
		epoch  int16 // of the marker; the verification's is 1
		stands bool
	}{
		{"the marker that brought the epoch", true, 1, true},
		{"the marker of its own transaction", true, 2, false},
		{"version 1", false, 1, false},
	} {
		var s producerState
		v := s.started(t, 1, 1, 0, c.v2)
		s.endTxn(batchHeader{producer: 1, epoch: c.epoch, transactional: true}.batch(), commit, 0)
		if got := s.verifications[1] == v; got != c.stands {
			t.Errorf("%s: stands %t, want %t", c.name, got, c.stands)
		}
	}
}

func TestVerificationChecksTheEpoch(t *testing.T) {
	var s producerState
	s.update(batchHeader{producer: 1, epoch: 5, transactional: true}.batch())
	if _, err := s.startVerification(1, 4, 0, true, 0); !errors.Is(err, ErrInvalidProducerEpoch) {
		t.Errorf("stale epoch: got %v, want ErrInvalidProducerEpoch", err)
	}
	// A raised epoch means another transaction than the one that is open, perhaps.
	v := s.started(t, 1, 6, 0, true)
	if v == nil {
		t.Fatal("a new epoch while a transaction of the old one is open: no verification")
	}
	b := batchHeader{producer: 1, epoch: 6, offset: 1, transactional: true}
	wantError(t, "without it", s.checks(b, nil), ErrInvalidTxnState)
	wantError(t, "with it", s.checks(b, v), nil)
	wantError(t, "the stale epoch comes before the verification", s.checks(batchHeader{producer: 1, epoch: 4, transactional: true}, nil), ErrInvalidProducerEpoch)
}

// Several batches of a producer are verified at a time. When the first one's is to be repeated, those behind it must not
// get in before it.
func TestNothingGoesAheadOfABatchThatIsVerifiedAgain(t *testing.T) {
	at := func(epoch int16, sequence int32) batchHeader {
		return batchHeader{producer: 1, epoch: epoch, sequence: sequence, transactional: true}
	}
	var s producerState
	v := s.started(t, 1, 0, 7, false)
	s.started(t, 1, 0, 9, false)
	wantError(t, "behind the first", s.checks(at(0, 9), v), ErrOutOfOrderSequence)
	s.started(t, 1, 0, 4, false)
	wantError(t, "behind one that came later", s.checks(at(0, 7), v), ErrOutOfOrderSequence)
	wantError(t, "the first of all", s.checks(at(0, 4), v), nil)
	// A new epoch begins anew; an old one changes nothing.
	s.started(t, 1, 1, 9, false)
	s.started(t, 1, 0, 2, false)
	wantError(t, "new epoch", s.checks(at(1, 9), v), nil)
	wantError(t, "behind in the new epoch", s.checks(at(1, 10), v), ErrOutOfOrderSequence)
	// The first batch that is appended ends it.
	s.update(at(1, 9).batch())
	wantError(t, "next in the transaction", s.checks(at(1, 10), nil), nil)
}

func TestTransactionsOfVersion2BeginAtZero(t *testing.T) {
	for _, c := range []struct {
		name     string
		prior    []batchHeader
		v2       bool
		sequence int32
		want     error
	}{
		{"no state, not at 0", nil, true, 1, ErrOutOfOrderSequence},
		{"no state, at 0", nil, true, 0, nil},
		{"no state, version 1", nil, false, 77, nil},
		{"goes on", []batchHeader{{producer: 1, count: 3}}, true, 3, nil},
		{"does not go on", []batchHeader{{producer: 1, count: 3}}, true, 0, ErrOutOfOrderSequence},
	} {
		var s producerState
		for _, h := range c.prior {
			s.update(h.batch())
		}
		v := s.started(t, 1, 0, c.sequence, c.v2)
		wantError(t, c.name, s.checks(batchHeader{producer: 1, sequence: c.sequence, transactional: true}, v), c.want)
	}
}

func TestVerificationExpires(t *testing.T) {
	var s producerState
	if _, err := s.startVerification(1, 0, 0, false, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := s.startVerification(2, 0, 0, false, 1001); err != nil {
		t.Fatal(err)
	}
	s.expire(2000, 1000)
	if s.verifications[1] != nil || s.verifications[2] == nil {
		t.Errorf("left: %+v, want that of producer 2", s.verifications)
	}
	s.expire(2001, 1000)
	if s.verifications != nil {
		t.Errorf("left: %+v, want none", s.verifications)
	}
}

// A batch that is cut off gives its verification back; one that a marker ended stays ended.
func TestCutGivesVerificationsBack(t *testing.T) {
	first := batchHeader{producer: 1, transactional: true}
	behind := batchHeader{producer: 1, sequence: 1, offset: 1, transactional: true}
	t.Run("batch", func(t *testing.T) {
		var s producerState
		v := s.started(t, 1, 0, 0, false)
		s.update(first.batch())
		s.update(behind.batch())
		s.cut(0)
		wantError(t, "a batch that found the transaction open", s.checks(behind, nil), ErrStorage)
		wantError(t, "the same sent again", s.checks(behind, s.started(t, 1, 0, 1, false)), ErrOutOfOrderSequence)
		if got := s.started(t, 1, 0, 0, false); got != v {
			t.Error("the batch sent again is given another verification")
		}
		wantError(t, "the batch sent again", s.checks(first, v), nil)
		s.update(first.batch())
		wantError(t, "the one behind it", s.checks(behind, nil), nil)
	})
	t.Run("batch of a group", func(t *testing.T) {
		var s producerState
		coordinator := AppendOptions{Origin: OriginCoordinator}
		h := batchHeader{producer: 1, sequence: -1, transactional: true}
		s.started(t, 1, 0, -1, false)
		s.update(h.batch())
		s.cut(0)
		_, _, err := s.check(h.batch(), coordinator)
		wantError(t, "a batch that found the transaction open", err, ErrStorage)
	})
	t.Run("marker", func(t *testing.T) {
		var s producerState
		v := s.started(t, 1, 0, 0, false)
		s.endTxn(batchHeader{producer: 1, transactional: true}.batch(), abort, 0)
		s.cut(0)
		wantError(t, "the answer of before", s.checks(first, v), ErrInvalidTxnState)
	})
	t.Run("batch and marker", func(t *testing.T) {
		var s producerState
		old := s.started(t, 1, 0, 0, false)
		s.update(first.batch())
		s.endTxn(batchHeader{producer: 1, offset: 1, transactional: true}.batch(), abort, 0)
		next := s.started(t, 1, 0, 1, false)
		s.cut(0)
		if next == old || s.verifications[1] != next {
			t.Error("the latest verification does not stand")
		}
		wantError(t, "the answer of before", s.checks(first, old), ErrInvalidTxnState)
		wantError(t, "the next one, ahead of what was cut off", s.checks(behind, next), ErrOutOfOrderSequence)
	})
	t.Run("durable batch", func(t *testing.T) {
		var s producerState
		s.started(t, 1, 0, 0, false)
		s.update(first.batch())
		s.onHighWatermark(1)
		s.update(behind.batch())
		s.cut(1)
		if s.verifications != nil {
			t.Errorf("verifications: %+v, want none: the transaction is open", s.verifications)
		}
		wantError(t, "the batch that was cut off", s.checks(behind, nil), nil)
	})
}

// transact appends a transactional batch as a client does that asks the coordinator, which agrees.
func transact(tb testing.TB, l *Log, b record.Batch, v2 bool) Appended {
	tb.Helper()
	v, err := l.StartVerification(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), v2)
	if err != nil {
		tb.Fatalf("verification of %d, epoch %d: %v", b.ProducerID(), b.ProducerEpoch(), err)
	}
	a, err := l.Append(b, AppendOptions{Verification: v})
	if err == nil {
		err = l.WaitDurable(context.Background(), a)
	}
	if err != nil {
		tb.Fatalf("append of %d, epoch %d, sequence %d: %v", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), err)
	}
	return a
}

// endTransaction appends a marker and waits for it.
func endTransaction(tb testing.TB, l *Log, id int64, epoch int16, commits, v2 bool) Appended {
	tb.Helper()
	marker := record.EndTxnMarker(id, epoch, record.Marker{Commit: commits}, 1_700_000_000_000, 0)
	a, err := l.Append(marker, AppendOptions{Origin: OriginCoordinator, TransactionV2: v2})
	if err == nil {
		err = l.WaitDurable(context.Background(), a)
	}
	if err != nil {
		tb.Fatalf("marker of %d, epoch %d: %v", id, epoch, err)
	}
	return a
}

func TestClientsWriteTransactions(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v2=%t", v2), func(t *testing.T) {
			rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
			l := rig.start()
			sequence, epoch := int32(0), int16(0)
			for i := range 4 {
				transact(t, l, txnBatch(5, epoch, sequence, 2), v2)
				if _, err := l.Append(txnBatch(5, epoch, sequence+2, 1), AppendOptions{}); err != nil {
					t.Fatalf("second batch of transaction %d: %v", i, err)
				}
				if sequence += 3; v2 {
					epoch, sequence = epoch+1, 0
				}
				endTransaction(t, l, 5, epoch, i%2 == 0, v2)
			}
			wantOffsets(t, l, Offsets{LastStable: 16, HighWatermark: 16, End: 16})
			aborted, err := l.AbortedTxns(0, 16)
			if want := "[{5 4 7 8} {5 12 15 16}]"; err != nil || fmt.Sprint(aborted) != want {
				t.Errorf("aborted: got %v, %v, want %s", aborted, err, want)
			}
			// What ends a transaction twice is harmless, and what belongs to an earlier one is refused.
			endTransaction(t, l, 5, epoch, false, v2)
			if v2 {
				marker := record.EndTxnMarker(5, epoch-1, record.Marker{}, 1, 0)
				_, err := l.Append(marker, AppendOptions{Origin: OriginCoordinator, TransactionV2: true})
				wantError(t, "late marker", err, ErrInvalidProducerEpoch)
				transact(t, l, txnBatch(5, epoch, 0, 1), v2)
				marker = record.EndTxnMarker(5, epoch, record.Marker{}, 1, 0)
				_, err = l.Append(marker, AppendOptions{Origin: OriginCoordinator, TransactionV2: true})
				wantError(t, "late marker while the next transaction is open", err, ErrInvalidProducerEpoch)
			}
			infos, err := l.ActiveProducers()
			if err != nil || len(infos) != 1 || infos[0].ProducerID != 5 || infos[0].Epoch != epoch || (infos[0].TxnFirstOffset >= 0) != v2 {
				t.Errorf("producers: %+v, %v", infos, err)
			}
			rig.stop(l)
		})
	}
}

func TestVerificationOfALogThatIsNotInUse(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	rig := newLogRig(t, mem)
	l := rig.start()
	if v, err := l.StartVerification(5, 0, 0, true); v == nil || err != nil {
		t.Errorf("a log without a directory: %v, %v", v, err)
	}
	transact(t, l, txnBatch(5, 0, 0, 1), true)
	transact(t, l, txnBatch(6, 0, 0, 1), true)
	endTransaction(t, l, 6, 1, true, true)
	rig.kill(l)

	l = rig.start()
	if v, err := l.StartVerification(5, 0, 1, true); v != nil || err != nil || l.Status() != StatusOnline {
		t.Errorf("first use, transaction open: %v, %v, status %v, want none", v, err, l.Status())
	}
	rig.stop(l)
	l = rig.start()
	if _, err := l.StartVerification(6, 0, 1, true); !errors.Is(err, ErrInvalidProducerEpoch) {
		t.Errorf("first use, epoch before the marker's: got %v, want ErrInvalidProducerEpoch", err)
	}
	l.goOffline(errors.New("damage"))
	if _, err := l.StartVerification(5, 0, 1, true); !errors.Is(err, ErrOffline) {
		t.Errorf("offline: got %v, want ErrOffline", err)
	}
	rig.kill(l)
	if _, err := l.StartVerification(5, 0, 1, true); !errors.Is(err, ErrLogDeleted) {
		t.Errorf("deleted: got %v, want ErrLogDeleted", err)
	}
}

// The log of the first batch could not be recovered when that was to be verified: the batch behind it must not go first.
func TestNothingGoesAheadOfABatchThatCouldNotBeVerified(t *testing.T) {
	armed := false
	rig := newLogRig(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		if armed && op.Kind == vfs.OpList {
			armed = false
			return errInjected
		}
		return nil
	}))
	l := rig.start()
	armed = true
	if _, err := l.StartVerification(7, 0, 0, false); !errors.Is(err, ErrOffline) {
		t.Fatalf("first batch: got %v, want ErrOffline", err)
	}
	v, err := l.StartVerification(7, 0, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(txnBatch(7, 0, 1, 1), AppendOptions{Verification: v})
	wantError(t, "batch behind it", err, ErrOutOfOrderSequence)
	transact(t, l, txnBatch(7, 0, 0, 1), false)
	transact(t, l, txnBatch(7, 0, 1, 1), false)
	rig.stop(l)
}

// A sync fails with two batches and a group's of three transactions in it, two of which they began. All are sent again, those
// behind the first ones too late.
func TestFailedSyncTakesBackTransactions(t *testing.T) {
	gate := &syncGate{}
	rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
	l := rig.start()
	transact(t, l, txnBatch(1, 0, 0, 1), false) // offset 0; stays open
	open := gate.close()
	gate.fail(errInjected)
	var waits []Appended
	for _, b := range []record.Batch{txnBatch(1, 0, 1, 1), txnBatch(2, 0, 0, 1), txnBatch(2, 0, 1, 1), txnBatch(3, 4, 0, 1)} {
		v, err := l.StartVerification(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), true)
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Append(b, AppendOptions{Verification: v})
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, a)
	}
	// Producer 2's third batch finds its transaction open, and is appended when that is gone.
	late, err := l.StartVerification(2, 0, 2, true)
	if late != nil || err != nil {
		t.Fatalf("third batch: %v, %v, want no verification", late, err)
	}
	open()
	for _, a := range waits {
		wantError(t, fmt.Sprintf("append at offset %d", a.BaseOffset), l.WaitDurable(context.Background(), a), ErrStorage)
	}
	gate.fail(nil)
	wantOffsets(t, l, Offsets{LastStable: 0, HighWatermark: 1, End: 1})
	infos, err := l.ActiveProducers()
	if err != nil || len(infos) != 1 || infos[0].TxnFirstOffset != 0 || infos[0].LastSequence != 0 {
		t.Errorf("producers after the cut: %+v, %v, want producer 1 as it was", infos, err)
	}
	_, err = l.Append(txnBatch(2, 0, 2, 1), AppendOptions{Verification: late})
	wantError(t, "third batch", err, ErrStorage)
	v, err := l.StartVerification(2, 0, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Append(txnBatch(2, 0, 1, 1), AppendOptions{Verification: v})
	wantError(t, "second batch before the first", err, ErrOutOfOrderSequence)
	for _, b := range []record.Batch{txnBatch(2, 0, 0, 1), txnBatch(2, 0, 1, 1), txnBatch(2, 0, 2, 1), txnBatch(1, 0, 1, 1), txnBatch(3, 4, 0, 1)} {
		transact(t, l, b, true)
	}
	wantOffsets(t, l, Offsets{LastStable: 0, HighWatermark: 6, End: 6})
	endTransaction(t, l, 1, 0, true, false)
	wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 7, End: 7})
	rig.stop(l)
}

func TestWatchersLearnOfTheLastStableOffset(t *testing.T) {
	gate := &syncGate{}
	rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
	l := rig.start()
	transact(t, l, txnBatch(1, 0, 0, 1), false)
	transact(t, l, txnBatch(2, 0, 0, 1), false)
	poke := make(chan struct{}, 1)
	defer l.Watch(poke)()
	open := gate.close()
	marker := record.EndTxnMarker(1, 0, record.Marker{Commit: true}, 1, 0)
	a, err := l.Append(marker, AppendOptions{Origin: OriginCoordinator})
	if err != nil {
		t.Fatal(err)
	}
	// As long as the marker is not durable the outcome may change.
	wantOffsets(t, l, Offsets{LastStable: 0, HighWatermark: 2, End: 3})
	select {
	case <-poke:
		t.Error("poked before the marker is durable")
	default:
	}
	open()
	if err := l.WaitDurable(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	select {
	case <-poke:
	default:
		t.Error("not poked when the marker is durable")
	}
	wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 3, End: 3})
	wantValues(t, readValues(t, l, 0, ReadCommitted), "0=0/0")
	rig.stop(l)
}

func TestMarkersGetTheLogsOwnTime(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["message.timestamp.type"] = "LogAppendTime"
	l := rig.start()
	now := rig.now().UnixMilli()
	transact(t, l, txnBatch(1, 0, 0, 1), false)
	rig.now = func() time.Time { return time.UnixMilli(now + 5) }
	l.ctx.now = rig.now
	a, err := l.Append(record.EndTxnMarker(1, 0, record.Marker{Commit: true}, 77, 0), AppendOptions{Origin: OriginCoordinator})
	if err != nil || a.LogAppendTimeMs != now+5 {
		t.Fatalf("marker: got %+v, %v, want time %d", a, err, now+5)
	}
	if err := l.WaitDurable(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	res, err := l.Read(nil, ReadRequest{Offset: 1, MaxBytes: 1000, VerifyCRC: true})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := record.Cut(res.Data)
	if err != nil || !b.LogAppendTime() || b.MaxTimestamp() != now+5 || b.VerifyCRC() != nil {
		t.Errorf("marker: %v, append time %t, timestamp %d, crc %v", err, b.LogAppendTime(), b.MaxTimestamp(), b.VerifyCRC())
	}
	if infos, err := l.ActiveProducers(); err != nil || len(infos) != 1 || infos[0].LastTimestamp != now+5 {
		t.Errorf("producers: %+v, %v, want last timestamp %d", infos, err, now+5)
	}
	rig.stop(l)
}

func TestVerificationsOfALogExpire(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	transact(t, l, txnBatch(1, 0, 0, 1), false)
	now := rig.now()
	v, err := l.StartVerification(2, 0, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	l.ctx.now = func() time.Time { return now.Add(l.ctx.producerIDExpiration) }
	l.expireProducers()
	_, err = l.Append(bytes.Clone(txnBatch(2, 0, 0, 1)), AppendOptions{Verification: v})
	wantError(t, "with a verification of a day ago", err, ErrInvalidTxnState)
	infos, err := l.ActiveProducers()
	if err != nil || len(infos) != 1 || infos[0].TxnFirstOffset != 0 {
		t.Errorf("producers: %+v, %v, want the one with an open transaction", infos, err)
	}
	l.ctx.now = func() time.Time { return now }
	rig.stop(l)
}
