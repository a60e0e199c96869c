package groups

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The queue and the map agree, and the first is that of all, whatever comes and goes.
func TestPendingIDsAreForgottenInOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 394))
		p, want := newPendingIDs(), map[string]time.Time{}
		for range 200 {
			id := fmt.Sprint("m", r.IntN(40))
			if _, there := want[id]; !there && r.IntN(3) > 0 {
				want[id] = scriptStart.Add(time.Duration(r.IntN(8)) * time.Second)
				p.add(id, want[id])
			} else {
				delete(want, id)
				p.remove(id)
			}
			first := ""
			for id, until := range want {
				if !p.has(id) {
					t.Fatalf("seed %d: %s is not pending", seed, id)
				}
				if first == "" || until.Before(want[first]) || until.Equal(want[first]) && id < first {
					first = id
				}
			}
			if p.len() != len(want) {
				t.Fatalf("seed %d: %d are pending, want %d", seed, p.len(), len(want))
			}
			if got := p.first(); (got == nil) != (first == "") || got != nil && (got.id != first || !got.until.Equal(want[first])) {
				t.Fatalf("seed %d: the first is %+v, want %q until %v", seed, got, first, want[first])
			}
		}
	}
}
