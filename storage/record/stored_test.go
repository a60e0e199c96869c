package record

import (
	"bytes"
	"testing"
)

// TestStoredRecordsAreTheSameBuiltAnew has headers of all kinds go from one batch to another as they are stored.
func TestStoredRecordsAreTheSameBuiltAnew(t *testing.T) {
	records := []Record{
		{Key: []byte("a"), Value: []byte("v"), Timestamp: 5},
		{Value: []byte{}, Timestamp: 6, Headers: []Header{{Key: []byte("k"), Value: []byte("v")}, {Key: []byte{}}, {Key: []byte("e"), Value: []byte{}}}},
		{Key: bytes.Repeat([]byte("k"), 2*windowSize), Timestamp: 4, Headers: make([]Header, 300)},
		{Key: []byte("last"), Value: bytes.Repeat([]byte("v"), 2*windowSize), Timestamp: 7},
	}
	for _, codec := range codecs {
		want := build(BuilderOptions{Codec: codec}, records)
		b := NewBuilder(BuilderOptions{Codec: codec})
		var r Reader
		for rec, err := range r.Stored(want) {
			if err != nil {
				t.Fatal(err)
			}
			if rec.Headers != nil {
				t.Errorf("codec %v: offset %d has %d headers taken apart", codec, rec.Offset, len(rec.Headers))
			}
			b.AppendAt(rec.Offset, rec)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("codec %v: the batch is another one", codec)
		}
	}
}
