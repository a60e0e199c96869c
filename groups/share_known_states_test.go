package groups

import (
	"testing"

	"github.com/kaen-log/gateway/storage"
)

// A topic whose states are asked for again is one whose states are being deleted no more,
// however far that got: else they would be deleted with the group's next attempt.
func TestStatesThatAreAskedForAreNotBeingDeleted(t *testing.T) {
	again, other := storage.TopicID{1}, storage.TopicID{2}
	g := newShareGroup("g", newGroupWorld().env)
	g.apply(start, modernRecord{kind: typeShareStates, body: &shareStates{
		initializing: sharedTopics{}, initialized: sharedTopics{}, deleting: map[storage.TopicID]string{again: "a", other: "b"},
	}})
	next := g.initializing(sharedTopics{again: {"a", []int32{0}}})
	if len(next.deleting) != 1 || next.deleting[other] != "b" || len(next.initializing[again].partitions) != 1 {
		t.Errorf("got %+v, want topic b being deleted and a asked for", next)
	}
	if len(g.states.deleting) != 2 || len(g.states.initializing) != 0 {
		t.Errorf("the group's own states changed to %+v", g.states)
	}
}
