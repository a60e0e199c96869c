package groups

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

func TestOffsetRecordsHaveKafkasBytes(t *testing.T) {
	key := appendOffsetKey(nil, "kitchen", offsetKey{topic: "orders", partition: 3})
	if got, want := hex.EncodeToString(key), "0001"+"00076b69746368656e"+"00066f7264657273"+"00000003"; got != want {
		t.Errorf("key: got %s, want %s", got, want)
	}
	o := Offset{Offset: 10, LeaderEpoch: 2, Metadata: "m", CommitMs: 1700000000000, ExpireMs: -1, TopicID: storage.TopicID{15: 7}}
	value := appendOffsetValue(nil, &o)
	want := "0004" + "000000000000000a" + "00000002" + "026d" + "0000018bcfe56800" + "01" + "0010" + "00000000000000000000000000000007"
	if got := hex.EncodeToString(value); got != want {
		t.Errorf("value: got %s, want %s", got, want)
	}
	o.ExpireMs = 1700000000001
	want = "0001" + "000000000000000a" + "00016d" + "0000018bcfe56800" + "0000018bcfe56801"
	if got := hex.EncodeToString(appendOffsetValue(nil, &o)); got != want {
		t.Errorf("value with expiry: got %s, want %s", got, want)
	}
}

func TestOffsetRecordsReadBack(t *testing.T) {
	for _, o := range []Offset{
		{Offset: 0, LeaderEpoch: -1, ExpireMs: -1},
		{Offset: 1 << 60, LeaderEpoch: 9, Metadata: "größe", CommitMs: 5, ExpireMs: -1, TopicID: storage.TopicID{1, 2, 3}},
		{Offset: 7, LeaderEpoch: -1, CommitMs: 5, ExpireMs: 12},
	} {
		key := appendOffsetKey(nil, "g", offsetKey{"t", 4})
		group, k, got, err := parseOffsetRecord(key, appendOffsetValue(nil, &o))
		if err != nil {
			t.Fatalf("%+v: error %v", o, err)
		}
		if group != "g" || k != (offsetKey{"t", 4}) || *got != o {
			t.Errorf("got %s %v %+v, want g t 4 %+v", group, k, *got, o)
		}
	}
	_, _, got, err := parseOffsetRecord(appendOffsetKey(nil, "g", offsetKey{"t", 4}), nil)
	if got != nil || err != nil {
		t.Errorf("tombstone: got %v %v, want no offset", got, err)
	}
}

func TestRecordsOfOtherTypesAreLeftAlone(t *testing.T) {
	for _, key := range [][]byte{{0, 9}, {0, 99}, {255, 255}} {
		s, b, r := newShard(nil), runtime.NewBatch(), record.Record{Key: key, Value: []byte{0, 3}}
		b.Append(r)
		if err := s.replayRecord(b.Bytes(), r); err != nil || len(s.entries) != 0 {
			t.Errorf("key %x: got %d groups, error %v, want neither", key, len(s.entries), err)
		}
	}
}

func TestUnreadableRecordsAreErrors(t *testing.T) {
	key := appendOffsetKey(nil, "g", offsetKey{"t", 4})
	for name, kv := range map[string][2][]byte{
		"no key":          {nil, {0, 4}},
		"cut key":         {key[:8], {0, 4}},
		"empty value":     {key, {}},
		"newer value":     {key, {0, 5, 0, 0}},
		"cut value":       {key, {0, 3, 0, 0}},
		"one-byte key":    {{0}, nil},
		"negative length": {{0, 1, 0xff, 0xff}, nil},
	} {
		if _, _, _, err := parseOffsetRecord(kv[0], kv[1]); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func FuzzParseOffsetRecord(f *testing.F) {
	o := Offset{Offset: 3, LeaderEpoch: 1, Metadata: "m", CommitMs: 4, ExpireMs: -1}
	f.Add(appendOffsetKey(nil, "g", offsetKey{"t", 1}), appendOffsetValue(nil, &o))
	f.Add([]byte{0, 1}, []byte{0, 4})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		group, k, o, err := parseOffsetRecord(key, value)
		if err != nil || o == nil {
			return
		}
		// What was read is written and read again the same.
		again, k2, o2, err := parseOffsetRecord(appendOffsetKey(nil, group, k), appendOffsetValue(nil, o))
		if err != nil || again != group || k2 != k {
			t.Fatalf("%x %x: read %q %v, then %q %v, error %v", key, value, group, k, again, k2, err)
		}
		if o.ExpireMs < 0 {
			if *o2 != *o {
				t.Fatalf("%x: read %+v, then %+v", value, *o, *o2)
			}
		} else if o2.Offset != o.Offset || !bytes.Equal([]byte(o2.Metadata), []byte(o.Metadata)) || o2.ExpireMs != o.ExpireMs {
			t.Fatalf("%x: read %+v, then %+v", value, *o, *o2)
		}
	})
}
