package storage

import (
	"errors"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

var (
	ann       = QuotaEntity{User: QuotaName{Set: true, Name: "ann"}}
	everybody = QuotaEntity{User: QuotaName{Set: true}}
	annsApp   = QuotaEntity{User: QuotaName{Set: true, Name: "ann"}, ClientID: QuotaName{Set: true, Name: "app"}}
)

func wantQuotas(t *testing.T, s *Store, want ClientQuotas) {
	t.Helper()
	if got := s.ClientQuotas(); !reflect.DeepEqual(got, want) {
		t.Errorf("quotas %v, want %v", got, want)
	}
}

func TestQuotasOutliveAKill(t *testing.T) {
	live := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, live)
	wantQuotas(t, s, ClientQuotas{})
	for _, changes := range [][]QuotaChange{
		{{Entity: ann, Key: "producer_byte_rate", Value: 1000}, {Entity: everybody, Key: "producer_byte_rate", Value: 500}},
		{{Entity: ann, Key: "consumer_byte_rate", Value: 2000}, {Entity: annsApp, Key: "request_percentage", Value: 12.5}},
		{{Entity: everybody, Key: "producer_byte_rate", Remove: true}, {Entity: everybody, Key: "never there", Remove: true}},
		{{Entity: ann, Key: "producer_byte_rate", Value: 1}, {Entity: ann, Key: "producer_byte_rate", Value: 1001}},
	} {
		if err := s.AlterClientQuotas(changes); err != nil {
			t.Fatal(err)
		}
	}
	want := ClientQuotas{
		ann:     {"producer_byte_rate": 1001, "consumer_byte_rate": 2000},
		annsApp: {"request_percentage": 12.5},
	}
	wantQuotas(t, s, want)
	killed := live.CrashClone(1, 0) // with nothing that was not synced
	closeStore(t, s)

	s = openStore(t, killed)
	wantQuotas(t, s, want)
	compactMetadata(t, s)
	closeStore(t, s)
	s = openStore(t, killed)
	wantQuotas(t, s, want)
	closeStore(t, s)
}

func TestQuotasThatChangeNothingAreNotWritten(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	defer closeStore(t, s)
	set := []QuotaChange{{Entity: ann, Key: "producer_byte_rate", Value: 1000}}
	if err := s.AlterClientQuotas(set); err != nil {
		t.Fatal(err)
	}
	size := s.metadata.log.Size()
	if err := s.AlterClientQuotas(append(set, QuotaChange{Entity: everybody, Key: "producer_byte_rate", Remove: true})); err != nil {
		t.Fatal(err)
	}
	if got := s.metadata.log.Size(); got != size {
		t.Errorf("the metadata log grew from %d to %d bytes, want nothing written", size, got)
	}
}

func TestQuotasThatAreNotDurableAreNotThere(t *testing.T) {
	errDisk := errors.New("disk is gone")
	var fail atomic.Bool
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(o vfs.Op) error {
		if fail.Load() && (o.Kind == vfs.OpSync || o.Kind == vfs.OpWriteAt) {
			return errDisk
		}
		return nil
	})
	s := openStore(t, fsys)
	if err := s.AlterClientQuotas([]QuotaChange{{Entity: ann, Key: "producer_byte_rate", Value: 1000}}); err != nil {
		t.Fatal(err)
	}
	want := ClientQuotas{ann: {"producer_byte_rate": 1000}}
	fail.Store(true)
	err := s.AlterClientQuotas([]QuotaChange{
		{Entity: ann, Key: "producer_byte_rate", Remove: true}, {Entity: everybody, Key: "producer_byte_rate", Value: 1},
	})
	if err == nil {
		t.Error("the change was acknowledged, want an error of the disk")
	}
	wantQuotas(t, s, want)
	if !reflect.DeepEqual(s.metadata.state.quotas, want) {
		t.Errorf("the state of the log has %v, want %v", s.metadata.state.quotas, want)
	}
	fail.Store(false)
	closeStore(t, s)
}
