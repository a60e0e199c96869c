package groups

import (
	"errors"
	"slices"
	"strings"
)

// Listed is a group as ListGroups tells of it.
type Listed struct {
	ID           string
	ProtocolType string // "" for a simple group
	State        string
	Kind         Kind
}

// List returns the groups by id: those in one of states and of one of kinds, which
// are compared without regard to case; all when a list is empty. A partition that
// cannot be read has no groups. The error is ErrLoading when a partition is being
// read, or ErrNotAvailable.
//
// Kafka: GroupCoordinatorService.listGroups, GroupMetadataManager.listGroups.
func (c *Coordinator) List(states, kinds []string) ([]Listed, error) {
	matches := func(of []string, name string) bool {
		return len(of) == 0 || slices.ContainsFunc(of, func(s string) bool { return strings.EqualFold(s, name) })
	}
	states = slices.Clone(states)
	for i := range states {
		states[i] = strings.TrimSpace(states[i])
	}
	out := []Listed{}
	for _, w := range c.all() {
		err := w.each(func(e *entry) {
			if l, ok := e.listed(); ok && matches(states, l.State) && matches(kinds, string(l.Kind)) {
				out = append(out, l)
			}
		})
		if err != nil && !errors.Is(err, ErrNotCoordinator) {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b Listed) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// each calls f for every group of the shard, under its lock.
func (w *owner) each(f func(*entry)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.ready()
	if err != nil {
		return err
	}
	for _, e := range s.entries {
		f(e)
	}
	return nil
}

// listed is what is told of a group; false for one that is about to be made.
func (e *entry) listed() (Listed, bool) {
	switch {
	case e.machine != nil:
		return Listed{ID: e.id, ProtocolType: e.machine.protocolType(), State: e.machine.state(), Kind: e.machine.kind()}, true
	case e.simple || len(e.offsets) > 0 || len(e.unstable) > 0:
		return Listed{ID: e.id, State: "Empty", Kind: KindClassic}, true
	}
	return Listed{}, false
}
