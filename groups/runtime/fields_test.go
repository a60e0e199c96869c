package runtime

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/kaen-log/gateway/storage"
)

// fields are all that values are made of, with their bytes as Kafka's protocol guide
// has them, and how they are read.
func fields() []field {
	text, id := "kö", storage.TopicID{0: 1, 15: 2}
	return []field{
		{"int16", AppendInt16(nil, -2), "fffe", func(d *Decoder) any { return d.Int16() }, int16(-2)},
		{"int32", AppendInt32(nil, -2), "fffffffe", func(d *Decoder) any { return d.Int32() }, int32(-2)},
		{"int64", AppendInt64(nil, 258), "0000000000000102", func(d *Decoder) any { return d.Int64() }, int64(258)},
		{"int8", []byte{0xff}, "ff", func(d *Decoder) any { return d.Int8() }, int8(-1)},
		{"uuid", AppendUUID(nil, id), "01000000000000000000000000000002", func(d *Decoder) any { return d.UUID() }, id},
		{"string", AppendPlainString(nil, text), "00036bc3b6", func(d *Decoder) any { return d.PlainString() }, text},
		{"compact string", AppendCompactString(nil, text), "046bc3b6", func(d *Decoder) any { return d.CompactString() }, text},
		{"compact string, nullable", AppendCompactNullable(nil, &text), "046bc3b6", func(d *Decoder) any { return d.CompactNullable() }, &text},
		{"compact bytes", AppendCompactBytes(nil, []byte{7}), "0207", func(d *Decoder) any { return d.CompactBytes() }, []byte{7}},
		{"compact strings", AppendCompactStrings(nil, []string{"a", ""}), "03026101", func(d *Decoder) any { return d.CompactStrings() }, []string{"a", ""}},
		{"compact numbers", AppendCompactInt32s(nil, []int32{1, -1}), "0300000001ffffffff", func(d *Decoder) any { return d.CompactInt32s() }, []int32{1, -1}},
		{"long length", AppendLength(nil, 127), "8001", func(d *Decoder) any { return d.Length(0) }, 127},
		{"tag 0", AppendTag0(nil, []byte{9, 9}), "0100020909", func(d *Decoder) (got any) {
			d.Tags(func(tag uint32, d *Decoder) { got = [2]int{int(tag), int(d.Int16())} })
			return got
		}, [2]int{0, 0x0909}},
	}
}

type field struct {
	name  string
	bytes []byte
	want  string // the bytes
	read  func(*Decoder) any
	value any
}

func TestFieldsAreAsKafkaHasThem(t *testing.T) {
	for _, f := range fields() {
		if got := hex.EncodeToString(f.bytes); got != f.want {
			t.Errorf("%s: got %s, want %s", f.name, got, f.want)
		}
		d := NewDecoder(append(f.bytes, 0x55))
		if got := f.read(d); !reflect.DeepEqual(got, f.value) || d.Err() != nil {
			t.Errorf("%s: read %v, %v, want %v", f.name, got, d.Err(), f.value)
		}
		if next := d.Int8(); next != 0x55 {
			t.Errorf("%s: then comes %x, want 55", f.name, next)
		}
	}
}

// A field that ends too early is a fault, and everything after it reads as zero.
func TestDecoderStopsAtTheFirstFault(t *testing.T) {
	for _, f := range fields() {
		for n := range len(f.bytes) {
			d := NewDecoder(f.bytes[:n])
			f.read(d)
			if !errors.Is(d.Err(), errShort) {
				t.Errorf("%s of %d bytes: error %v, want %v", f.name, n, d.Err(), errShort)
			}
			if v := d.Int8(); v != 0 {
				t.Errorf("%s of %d bytes: then comes %d, want 0", f.name, n, v)
			}
		}
	}
	d := NewDecoder(append([]byte{0, 1}, make([]byte, 20)...))
	d.Version()
	version := d.Err()
	if d.Int64(); version == nil || d.Err() != version {
		t.Errorf("version 1: error %v, then %v, want the first", version, d.Err())
	}
	d = NewDecoder([]byte{0})
	if s := d.CompactString(); s != "" || d.Err() == nil {
		t.Errorf("null where a string must be: got %q, error %v", s, d.Err())
	}
}

func TestNullsAreToldFromNothing(t *testing.T) {
	d := NewDecoder(AppendNoTags(AppendCompactNullable(nil, nil)))
	if s := d.CompactNullable(); s != nil {
		t.Errorf("got %q, want null", *s)
	}
	if d.Tags(nil); d.Err() != nil {
		t.Error(d.Err())
	}
	d = NewDecoder([]byte{0, 0, 1, 1})
	b, list := d.CompactBytes(), d.CompactInt32s()
	if b != nil || list != nil {
		t.Errorf("got %v and %v, want null", b, list)
	}
	b, list = d.CompactBytes(), d.CompactInt32s()
	if b == nil || len(b) > 0 || list == nil || len(list) > 0 {
		t.Errorf("got %v and %v, want what is empty", b, list)
	}
}
