package runtime

import "testing"

// TestPartitionIsTheOneThatKafkaChooses compares with what Java's String.hashCode
// and length answer.
func TestPartitionIsTheOneThatKafkaChooses(t *testing.T) {
	for _, c := range []struct {
		group     string
		hash      int32
		partition int32 // of 50
		length    int
	}{
		{"", 0, 0, 0},
		{"a", 97, 47, 1},
		{"kitchen", -705112156, 6, 7},
		{"courier", 957939245, 45, 7},
		{"analytics", -1693017210, 10, 9},
		{"my-group", -1906497762, 12, 8},
		{"größe", 98762257, 7, 5},
		{"注文", 890271, 21, 2},
		{"𝄞-clef", 1436437325, 25, 7},
		{"polygenelubricants", -2147483648, 0, 18},
		{"группа-1", -1936320450, 0, 8},
		{"👩‍🍳 kitchen", -1663308868, 18, 13},
	} {
		if got := JavaHash(c.group); got != c.hash {
			t.Errorf("hash of %q: got %d, want %d", c.group, got, c.hash)
		}
		if got := PartitionFor(c.group, 50); got != c.partition {
			t.Errorf("partition of %q: got %d, want %d", c.group, got, c.partition)
		}
		if got := JavaLength(c.group); got != c.length {
			t.Errorf("length of %q: got %d, want %d", c.group, got, c.length)
		}
	}
}
