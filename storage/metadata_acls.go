package storage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kaen-log/gateway/auth"
)

// MaxACLChanges is how many ACLs one request may add or remove. Kafka: QuorumController.MAX_RECORDS_PER_USER_OP.
const MaxACLChanges = 10_000

// ACLs returns the ACLs as of the last change.
func (s *Store) ACLs() *auth.ACLs {
	if a := s.acls.Load(); a != nil {
		return a
	}
	return new(auth.ACLs)
}

// CreateACLs adds bindings, which have to be valid, all of them or none; those that are there already change nothing.
// It returns when that is durable and holds. Errors: ErrTooManyACLs, ErrStorage.
func (s *Store) CreateACLs(bindings []auth.Binding) error {
	var added []auth.Binding
	return s.metadata.commit(&metadataChange{
		build: func(st *metadataState) (records []metadataRecord, err error) {
			added = nil
			seen := make(map[auth.Binding]bool)
			for _, b := range bindings {
				if st.acls[b] || seen[b] {
					continue
				}
				if len(added) == MaxACLChanges {
					return nil, fmt.Errorf("%w: more than %d", ErrTooManyACLs, MaxACLChanges)
				}
				seen[b] = true
				r, err := s.grow(aclRecord(b, true))
				if err != nil {
					return nil, err
				}
				added, records = append(added, b), append(records, r...)
			}
			return records, nil
		},
		publish: func() {
			if len(added) > 0 {
				s.acls.Store(s.ACLs().With(added, nil))
			}
		},
	})
}

// DeleteACLs removes the bindings that the filters choose, all of them or none, and returns those of each filter: one
// that two of them choose is in both. It returns when that is durable and holds. Errors: ErrTooManyACLs, ErrStorage.
func (s *Store) DeleteACLs(filters []auth.Filter) ([][]auth.Binding, error) {
	var chosen [][]auth.Binding
	var removed []auth.Binding
	err := s.metadata.commit(&metadataChange{
		build: func(st *metadataState) (records []metadataRecord, err error) {
			chosen, removed = make([][]auth.Binding, len(filters)), nil
			gone := make(map[auth.Binding]bool)
			all := sortedACLs(st.acls)
			for i := range filters {
				for _, b := range all {
					if !filters[i].Chooses(&b) {
						continue
					}
					chosen[i] = append(chosen[i], b)
					if gone[b] {
						continue
					}
					if len(removed) == MaxACLChanges {
						return nil, fmt.Errorf("%w: more than %d", ErrTooManyACLs, MaxACLChanges)
					}
					gone[b] = true
					removed, records = append(removed, b), append(records, aclRecord(b, false))
				}
			}
			return records, nil
		},
		publish: func() {
			if len(removed) > 0 {
				s.acls.Store(s.ACLs().With(nil, removed))
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return chosen, nil
}

func sortedACLs(acls map[auth.Binding]bool) []auth.Binding {
	return slices.SortedFunc(maps.Keys(acls), func(a, b auth.Binding) int { return a.Compare(&b) })
}

// aclRecord is the record of type 10 that adds a binding or takes it away. The key is the binding: four bytes for the
// type of resource, the pattern, the operation and the permission, then the resource's name, the principal and the host.
func aclRecord(b auth.Binding, there bool) metadataRecord {
	r := metadataRecord{key: []byte{metadataACLKey, byte(b.Resource), byte(b.Pattern), byte(b.Operation), byte(b.Permission)}}
	r.key = appendText(appendText(appendText(r.key, b.Name), b.Principal), b.Host)
	if there {
		r.value = []byte{metadataValueVersion}
	}
	return r
}

// aclOf reads the binding from a record's key without its type.
func aclOf(key []byte) (b auth.Binding, ok bool) {
	c := fields{b: key, present: true}
	b.Resource, b.Pattern = auth.ResourceType(c.uint(1)), auth.PatternType(c.uint(1))
	b.Operation, b.Permission = auth.Operation(c.uint(1)), auth.Permission(c.uint(1))
	b.Name, b.Principal, b.Host = c.text(), c.text(), c.text()
	return b, !c.bad && len(c.b) == 0 && b.Valid()
}

func (st *metadataState) applyACL(key []byte, c *fields) {
	switch b, ok := aclOf(key); {
	case !ok || len(c.b) != 0:
		c.bad = true
	case c.present:
		st.acls[b] = true
	default:
		delete(st.acls, b)
	}
}

// undoACL is undo of a record of type 10.
func (st *metadataState) undoACL(key []byte) func() {
	b, _ := aclOf(key)
	if st.acls[b] {
		return func() { st.acls[b] = true }
	}
	return func() { delete(st.acls, b) }
}

func describeACL(key []byte, there bool) string {
	b, _ := aclOf(key)
	says, pattern, what := "deny", "literal", "ACL"
	if b.Permission == auth.Allow {
		says = "allow"
	}
	if b.Pattern == auth.Prefixed {
		pattern = "prefixed"
	}
	if !there {
		what = "ACL taken away"
	}
	return fmt.Sprintf("%s: %s %s from %s operation %d on resource type %d %s %q", what, says, b.Principal, b.Host, b.Operation, b.Resource, pattern, b.Name)
}
