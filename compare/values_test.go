package compare

import "testing"

// TestPartitionOfAGroup has values of Java's String.hashCode, by which Kafka places groups.
func TestPartitionOfAGroup(t *testing.T) {
	noted := partitions{}
	vars := variables{"group": "my-group", "(partitions)": noted}
	for name, want := range map[string]int64{
		"":                   0,
		"a":                  97 % 50,
		"ab":                 (97*31 + 98) % 50,
		"\u00e9":             0xe9 % 50,
		"\U0001f600":         (0xd83d*31 + 0xde00) % 50,
		"polygenelubricants": 0, // its hash is the least number
	} {
		got, err := vars.resolve(map[string]any{"partitionOf": name})
		if err != nil || got != want {
			t.Errorf("partition of %q: got %v, error %v; want %d", name, got, err, want)
		}
	}
	got, err := vars.resolve(map[string]any{"partitionOf": "${group}"})
	if err != nil || noted[got.(int64)] != "my-group" {
		t.Errorf("partition of a variable: got %v, error %v, noted %v; want that of my-group", got, err, noted)
	}
}
