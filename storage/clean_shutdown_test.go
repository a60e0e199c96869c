package storage

import (
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestCleanShutdownMarkerIsTakenOnce(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	if err := mem.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	if err := mem.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	if clean, err := takeCleanShutdown(mem, "data"); clean || err != nil {
		t.Errorf("without a marker: %t, %v", clean, err)
	}
	if err := writeCleanShutdown(mem, "data", 7); err != nil {
		t.Fatal(err)
	}
	b, err := readFile(mem, "data/.kafka_cleanshutdown")
	if err != nil || string(b) != `{"version":0,"brokerEpoch":7}` {
		t.Errorf("the marker is %q, %v", b, err)
	}
	if clean, err := takeCleanShutdown(mem.CrashClone(1, 0), "data"); !clean || err != nil {
		t.Errorf("after a crash the marker is there: %t, %v, want true", clean, err)
	}
	if clean, err := takeCleanShutdown(mem, "data"); !clean || err != nil {
		t.Errorf("taking the marker: %t, %v, want true", clean, err)
	}
	if clean, err := takeCleanShutdown(mem.CrashClone(1, 0), "data"); clean || err != nil {
		t.Errorf("after a crash the taken marker is there: %t, %v, want false", clean, err)
	}
}

func TestDecodeCleanShutdown(t *testing.T) {
	for _, c := range []struct {
		text  string
		epoch int64
		err   string
	}{
		{`{"version":0,"brokerEpoch":12}`, 12, ""},
		{`{"version":0,"brokerEpoch":12,"more":[]}`, 12, ""},
		{`{"version":0}`, -1, ""},
		{"", -1, ""},
		{"{", -1, "clean shutdown marker: position 1"},
		{`{"brokerEpoch":"x"}`, -1, "clean shutdown marker"},
	} {
		epoch, err := DecodeCleanShutdown([]byte(c.text))
		if epoch != c.epoch || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: %d, %v, want %d, %q", c.text, epoch, err, c.epoch, c.err)
		}
	}
}

func FuzzCleanShutdown(f *testing.F) {
	f.Add([]byte(`{"version":0,"brokerEpoch":12}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		epoch, err := DecodeCleanShutdown(b)
		if err != nil && epoch != -1 {
			t.Fatalf("%q: %d, %v", b, epoch, err)
		}
	})
}
