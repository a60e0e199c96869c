package storage

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// A transaction index names the aborted transactions whose abort marker lies in the segment. The file is entries
// back to back, by ascending last offset; segments without aborted transactions have none:
//
//	0   int16  version, 0
//	2   int64  producer id
//	10  int64  first offset of the transaction; it may lie in an earlier segment
//	18  int64  last offset: of the abort marker
//	26  int64  last stable offset when it was aborted
//
// Kafka: TransactionIndex, AbortedTxn.json.
const txnEntrySize = 34

// AbortedTxn is an aborted transaction in a log.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // of the abort marker
	LastStableOffset int64 // of the log when the marker was appended, not counting this transaction
}

// txnIndex is the transaction index of one segment: all of its entries in memory, since there are few. A copy of it
// keeps answering while the original is appended to or cut. Unlike the other two indexes it cannot be rebuilt from
// its segment alone (that also takes the producer state at the segment's start), so it is written and synced before
// the recovery point moves over a marker in it.
type txnIndex struct {
	entries []AbortedTxn // by LastOffset; never changed in place
	stored  int          // entries in the file
}

// append adds the transaction that the marker just appended to the log aborts.
func (x *txnIndex) append(a AbortedTxn) {
	if n := len(x.entries); n > 0 && x.entries[n-1].LastOffset >= a.LastOffset {
		panic(fmt.Sprintf("storage: aborted transaction %+v after %+v", a, x.entries[n-1]))
	}
	x.entries = append(x.entries, a)
}

// unwritten returns the bytes that are not in the file yet and the position to write them at.
func (x *txnIndex) unwritten() (b []byte, position int64) {
	for _, a := range x.entries[x.stored:] {
		b = appendTxnEntry(b, a)
	}
	return b, x.storedSize()
}

// written returns the bytes that are in the file.
func (x *txnIndex) written() (b []byte) {
	for _, a := range x.entries[:x.stored] {
		b = appendTxnEntry(b, a)
	}
	return b
}

// wrote says that n more bytes, as unwritten returned them, are in the file.
func (x *txnIndex) wrote(n int) {
	if n%txnEntrySize != 0 || x.stored+n/txnEntrySize > len(x.entries) {
		panic(fmt.Sprintf("storage: %d transaction index bytes written, %d of %d entries stored before", n, x.stored, len(x.entries)))
	}
	x.stored += n / txnEntrySize
}

// storedSize is the number of bytes that are in the file; after a truncate, the file is to be cut to it.
func (x *txnIndex) storedSize() int64 { return int64(x.stored) * txnEntrySize }

// truncate removes the transactions whose marker is at or above offset. The caller then cuts the file to storedSize.
func (x *txnIndex) truncate(offset int64) {
	n, _ := slices.BinarySearchFunc(x.entries, offset, byMarker)
	x.entries = x.entries[:n:n]
	x.stored = min(x.stored, n)
}

// collect appends to dst the transactions that overlap the offsets [from, to). more is false when no later segment
// can have another: an entry showed that everything below `to` had been decided. The order is that of the markers;
// sortAborted makes it that of the first offsets, which clients expect.
func (x *txnIndex) collect(dst []AbortedTxn, from, to int64) (out []AbortedTxn, more bool) {
	start, _ := slices.BinarySearchFunc(x.entries, from, byMarker)
	for _, a := range x.entries[start:] {
		if a.FirstOffset < to {
			dst = append(dst, a)
		}
		if a.LastStableOffset >= to {
			return dst, false
		}
	}
	return dst, true
}

// markers returns the transactions whose marker is at an offset from first to last.
func (x *txnIndex) markers(first, last int64) []AbortedTxn {
	i, _ := slices.BinarySearchFunc(x.entries, first, byMarker)
	n := i
	for n < len(x.entries) && x.entries[n].LastOffset <= last {
		n++
	}
	return x.entries[i:n]
}

// sortAborted orders transactions by their first offset.
func sortAborted(a []AbortedTxn) {
	slices.SortFunc(a, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
}

func byMarker(a AbortedTxn, offset int64) int { return cmp.Compare(a.LastOffset, offset) }

func appendTxnEntry(b []byte, a AbortedTxn) []byte {
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(a.ProducerID))
	b = binary.BigEndian.AppendUint64(b, uint64(a.FirstOffset))
	b = binary.BigEndian.AppendUint64(b, uint64(a.LastOffset))
	return binary.BigEndian.AppendUint64(b, uint64(a.LastStableOffset))
}

// DecodeTxnIndex returns the entries of the transaction index file b. At the first that cannot be, it returns those
// before and a *DecodeError.
func DecodeTxnIndex(b []byte) ([]AbortedTxn, error) {
	var entries []AbortedTxn
	prev := int64(-1)
	for at := 0; at < len(b); at += txnEntrySize {
		fault := func(format string, args ...any) ([]AbortedTxn, error) {
			return entries, &DecodeError{Format: "transaction index", Position: int64(at), Padding: allZero(b[at:]), Reason: fmt.Sprintf(format, args...)}
		}
		if len(b)-at < txnEntrySize {
			return fault("entry of %d bytes with %d bytes left", txnEntrySize, len(b)-at)
		}
		e := b[at : at+txnEntrySize]
		if v := int16(binary.BigEndian.Uint16(e)); v != 0 {
			return fault("version %d, want 0", v)
		}
		a := AbortedTxn{
			ProducerID:       int64(binary.BigEndian.Uint64(e[2:])),
			FirstOffset:      int64(binary.BigEndian.Uint64(e[10:])),
			LastOffset:       int64(binary.BigEndian.Uint64(e[18:])),
			LastStableOffset: int64(binary.BigEndian.Uint64(e[26:])),
		}
		if a.ProducerID < 0 || a.FirstOffset < 0 || a.FirstOffset >= a.LastOffset || a.LastOffset <= prev {
			return fault("producer %d aborted offsets %d to %d after a marker at %d", a.ProducerID, a.FirstOffset, a.LastOffset, prev)
		}
		entries = append(entries, a)
		prev = a.LastOffset
	}
	return entries, nil
}
