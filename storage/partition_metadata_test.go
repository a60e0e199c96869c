package storage

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestPartitionMetadataWritesKafkasBytes(t *testing.T) {
	id, err := ParseTopicID("KDGAvSGPT3OcvXcPbVEzHw")
	if err != nil {
		t.Fatal(err)
	}
	b := encodePartitionMetadata(id)
	if got, want := string(b), "version: 0\ntopic_id: KDGAvSGPT3OcvXcPbVEzHw"; got != want {
		t.Errorf("encoded %q, want %q", got, want)
	}
	mem := vfs.NewMem(vfs.MemOptions{})
	if err := mem.MkdirAll("orders-0"); err != nil {
		t.Fatal(err)
	}
	if _, err := readPartitionMetadata(mem, "orders-0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v, want fs.ErrNotExist", err)
	}
	if err := writePartitionMetadata(mem, "orders-0", id); err != nil {
		t.Fatal(err)
	}
	if got, err := readPartitionMetadata(mem, "orders-0"); err != nil || got != (PartitionMetadata{0, id}) {
		t.Errorf("read %+v, %v, want id %s", got, err, id)
	}
}

func TestDecodePartitionMetadata(t *testing.T) {
	const id = "KDGAvSGPT3OcvXcPbVEzHw"
	for _, c := range []struct{ text, want string }{
		{"version: 0\ntopic_id: " + id, ""},
		{"version: 0\ntopic_id: " + id + "\n", ""},
		{"version: 0\r\ntopic_id:  " + id + "\r\n", ""},
		{"version: 7\ntopic_id: " + id + "\nmore: 1\n", ""},
		{"", `line 1: "", want version: 0`},
		{"version: 0", `line 2: "", want topic_id: and an id`},
		{"version:0\ntopic_id: " + id, `line 1: "version:0", want version: 0`},
		{"version: x\ntopic_id: " + id, `line 1: version "x"`},
		{"version: -1\ntopic_id: " + id, `line 1: version "-1"`},
		{"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", `line 2: topic id "AAAA`},
		{"version: 0\ntopic_id: short", `line 2: topic id "short"`},
		{"version: 0\nname: orders", `line 2: "name: orders"`},
		{strings.Repeat("\x00", 40), "line 1: "},
	} {
		_, err := DecodePartitionMetadata([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzPartitionMetadata(f *testing.F) {
	f.Add([]byte("version: 0\ntopic_id: KDGAvSGPT3OcvXcPbVEzHw"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodePartitionMetadata(b)
		if err != nil {
			return
		}
		again, err := DecodePartitionMetadata(encodePartitionMetadata(m.TopicID))
		if err != nil || again.TopicID != m.TopicID {
			t.Fatalf("%q decodes to %+v, which comes back as %+v, %v", b, m, again, err)
		}
	})
}
