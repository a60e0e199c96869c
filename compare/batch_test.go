package compare

import (
	"bytes"
	"strings"
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

// TestBatchesThatCannotBeBuilt has numbers that no batch can hold: they are the scenario's fault, and told as such.
func TestBatchesThatCannotBeBuilt(t *testing.T) {
	records := func(items ...map[string]any) map[string]any {
		var list []any
		for _, item := range items {
			list = append(list, item)
		}
		return map[string]any{"records": list}
	}
	cut := records(map[string]any{"value": "a"})
	cut["cut"] = -100
	for want, batch := range map[string]map[string]any{
		"cut: got -100":           cut,
		"size: got -1":            records(map[string]any{"size": -1}),
		"size: got 9000000000":    records(map[string]any{"size": 9_000_000_000}),
		"times: got 900000000000": records(map[string]any{"times": 900_000_000_000}),
		"times: got -1":           records(map[string]any{"times": -1}),
		"delta: got -9000000000":  records(map[string]any{"delta": 5}, map[string]any{"delta": -9_000_000_000}),
		"delta: got 5 after 5":    records(map[string]any{"delta": 5}, map[string]any{"delta": 5}),
		"[0]: too much":           records(map[string]any{"size": maxBuilt / 2, "times": 3}),
		"[1]: too much":           records(map[string]any{"delta": 1 << 30}, map[string]any{"delta": 1<<31 - 2, "times": 5}),
	} {
		if b, err := buildBatch(batch); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %d bytes and error %v, want %q", len(b), err, want)
		}
	}
}

func TestTextThatCannotBeRepeated(t *testing.T) {
	for _, times := range []any{-4, 1 << 30, "many"} {
		if got, err := (variables{}).resolve(map[string]any{"repeat": "x", "times": times}); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("repeated %v times: got %v and error %v, want one that tells", times, got, err)
		}
	}
}
