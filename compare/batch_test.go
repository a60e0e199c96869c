package compare

import (
	"bytes"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
)

func TestBatchWithABodyOfItsOwn(t *testing.T) {
	plain := []byte{0x0e, 0, 0, 0, 1, 2, 'a', 0} // one record whose value is a
	same, err := buildBatch(map[string]any{"records": []any{map[string]any{"value": "a"}}})
	if err != nil || !bytes.HasSuffix(same, plain) {
		t.Fatalf("got %x, %v, want a batch that ends with %x", same, err, plain)
	}
	b, err := buildBatch(map[string]any{
		"records": []any{map[string]any{"value": "a"}}, "body": "08 1c 0e00000001026100", "append": "ff", "set": map[string]any{"attributes": 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	batch, rest, err := record.Cut(b)
	if err != nil || len(rest) != 0 || batch.VerifyCRC() != nil || batch.Codec() != record.Snappy || batch.Count() != 1 {
		t.Errorf("got %x, %d bytes behind it, %v; want a snappy batch of one record that holds", b, len(rest), err)
	}
	if want := append([]byte{8, 0x1c}, append(plain, 0xff)...); !bytes.Equal(b[record.HeaderSize:], want) {
		t.Errorf("got body %x, want %x", b[record.HeaderSize:], want)
	}
}
