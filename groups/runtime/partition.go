package runtime

import "unicode/utf16"

// PartitionFor returns the partition of a coordinator's topic, of n, that the records of
// what has a name are in. Kafka: GroupCoordinatorService.partitionFor,
// ShareCoordinatorService.partitionFor, with Utils.abs.
func PartitionFor(name string, n int32) int32 {
	h := JavaHash(name)
	if h == -1<<31 {
		return 0 // its absolute value does not fit, and Java's abs answers 0 for it
	}
	return max(h, -h) % n
}

// JavaHash is Java's String.hashCode: over UTF-16 code units, wrapping at 32 bits.
func JavaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r < 0x10000 {
			h = 31*h + r
			continue
		}
		high, low := utf16.EncodeRune(r)
		h = 31*(31*h+high) + low
	}
	return h
}

// JavaLength is Java's String.length: the number of UTF-16 code units.
func JavaLength(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x10000 {
			n++
		}
	}
	return n
}
