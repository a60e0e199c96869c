package groups

import (
	"container/heap"
	"time"
)

// pendingIDs are the member ids given to those that have to join again with theirs, and
// when each is forgotten. Any number of clients may ask for one and never come again:
// group.max.size counts members only, so what bounds them is their time. Kafka:
// ClassicGroup.pendingJoinMembers; KIP-394.
type pendingIDs struct {
	byID  map[string]*pendingID
	queue pendingQueue // the same, the first to be forgotten first
}

type pendingID struct {
	id    string
	until time.Time
	place int // in the queue
}

func newPendingIDs() pendingIDs { return pendingIDs{byID: map[string]*pendingID{}} }

func (p *pendingIDs) has(id string) bool { return p.byID[id] != nil }

func (p *pendingIDs) len() int { return len(p.queue) }

// add notes an id that is not there yet.
func (p *pendingIDs) add(id string, until time.Time) {
	e := &pendingID{id: id, until: until}
	p.byID[id] = e
	heap.Push(&p.queue, e)
}

// remove forgets an id, if it is there.
func (p *pendingIDs) remove(id string) {
	if e := p.byID[id]; e != nil {
		delete(p.byID, id)
		heap.Remove(&p.queue, e.place)
	}
}

// first returns the id that is forgotten first, nil without one; of several at the same
// time the first by name.
func (p *pendingIDs) first() *pendingID {
	if len(p.queue) == 0 {
		return nil
	}
	return p.queue[0]
}

type pendingQueue []*pendingID

func (q pendingQueue) Len() int { return len(q) }
func (q pendingQueue) Less(i, j int) bool {
	return q[i].until.Before(q[j].until) || q[i].until.Equal(q[j].until) && q[i].id < q[j].id
}
func (q pendingQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push appends a *pendingID.
func (q *pendingQueue) Push(x any) {
	e := x.(*pendingID)
	e.place = len(*q)
	*q = append(*q, e)
}

// Pop removes the last.
func (q *pendingQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
