package main

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// hexWidth is how many bytes a line of hex has.
const hexWidth = 16

// bytesText is a size for people: the bytes, and from 1 KiB on the size in a unit that suits it.
func bytesText(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1024 {
		return plural(int(n), "byte", "bytes")
	}
	f, u := float64(n)/1024, 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	return fmt.Sprintf("%d bytes (%.1f %s)", n, f, units[u])
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// maxISO is the last millisecond of the year 9999.
const maxISO = 253402300799999

// isoTime is a time in milliseconds as ISO 8601, "-" for none and for what no calendar has.
func isoTime(ms int64) string {
	if ms < 0 || ms > maxISO {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// orNone is a number that is -1 when there is none.
func orNone[T int16 | int32 | int64](n T) string {
	if n == -1 {
		return "-"
	}
	return strconv.FormatInt(int64(n), 10)
}

// text shows bytes: null, a quoted string when they are UTF-8, else hex; cut at the limit.
func (d *dumper) text(b []byte) string {
	if b == nil {
		return "null"
	}
	cut, more := b, ""
	if limit := d.flags.limit; limit > 0 && len(b) > limit {
		cut = b[:limit]
		for n := 0; n < utf8.UTFMax && len(cut) > 0 && utf8.Valid(b) && !utf8.Valid(cut); n++ {
			cut = cut[:len(cut)-1]
		}
		more = fmt.Sprintf("… (%d bytes)", len(b))
	}
	if utf8.Valid(cut) {
		return strconv.Quote(string(cut)) + more
	}
	return fmt.Sprintf("0x%x%s", cut, more)
}

// hexRange prints the bytes of the file at hand in [from, to), with their positions.
func (d *dumper) hexRange(from, to int64) {
	from, to = max(from, 0), min(to, d.file.size)
	if from >= to {
		return
	}
	if d.file.topic == gatewayMetadata {
		d.printf("    bytes not printed: those of the metadata log may be secrets\n")
		return
	}
	var block [hexWidth * 64]byte
	for from < to {
		n, err := d.file.r.ReadAt(block[:min(int64(len(block)), to-from)], from)
		for b := block[:n]; len(b) > 0; {
			line := b[:min(len(b), hexWidth)]
			d.hexLine(from, line)
			from, b = from+int64(len(line)), b[len(line):]
		}
		if err != nil || n == 0 {
			return
		}
	}
}

// hexAround prints the bytes of the file at hand around a position.
func (d *dumper) hexAround(position int64) {
	from := position - position%hexWidth - 2*hexWidth
	d.hexRange(from, position+4*hexWidth)
}

func (d *dumper) hexLine(position int64, b []byte) {
	d.printf("    %010x ", position)
	for i := range hexWidth {
		if i == hexWidth/2 {
			d.printf(" ")
		}
		if i < len(b) {
			d.printf(" %02x", b[i])
		} else {
			d.printf("   ")
		}
	}
	var shown [hexWidth]byte
	for i, c := range b {
		if shown[i] = c; c < ' ' || c > '~' {
			shown[i] = '.'
		}
	}
	d.printf("  |%s|\n", shown[:len(b)])
}
