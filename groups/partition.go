package groups

import "unicode/utf16"

// partitionFor returns the partition of __consumer_offsets that a group's records
// are in, of n. Kafka: GroupCoordinatorService.partitionFor with Utils.abs.
func partitionFor(groupID string, n int32) int32 {
	h := javaHash(groupID)
	if h == -1<<31 {
		return 0 // its absolute value does not fit, and Java's abs answers 0 for it
	}
	if h < 0 {
		h = -h
	}
	return h % n
}

// javaHash is Java's String.hashCode: over UTF-16 code units, wrapping at 32 bits.
func javaHash(s string) int32 {
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

// javaLength is Java's String.length: the number of UTF-16 code units.
func javaLength(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x10000 {
			n++
		}
	}
	return n
}
