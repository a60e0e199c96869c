package storage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/record"
)

// ScramUser is a user's credential of one mechanism of SCRAM, by which it is kept.
type ScramUser struct {
	Name      string
	Mechanism string
}

// ScramCredentials are the credentials of all users. They are not to be changed.
type ScramCredentials map[ScramUser]auth.ScramCredential

// ScramCredentials returns the credentials as of the last change.
func (s *Store) ScramCredentials() ScramCredentials {
	if all := s.scram.Load(); all != nil {
		return *all
	}
	return nil
}

// ScramChange sets a credential, or takes it away where it is nil.
type ScramChange struct {
	User       ScramUser
	Credential *auth.ScramCredential
}

// MaxScramChanges is how many credentials one request may change. Kafka: QuorumController.MAX_RECORDS_PER_BATCH.
const MaxScramChanges = 10_000

// AlterScramCredentials makes the changes that decide asks for, all of them or none. decide looks at the credentials as
// they are when the changes come to their turn; it may not keep or change them, nor call the store. When it returns an
// error, that is returned and nothing is changed. The change is durable, and holds, when this returns nil.
func (s *Store) AlterScramCredentials(decide func(ScramCredentials) ([]ScramChange, error)) error {
	var changes []ScramChange
	return s.metadata.commit(&metadataChange{
		build: func(st *metadataState) (records []metadataRecord, err error) {
			if changes, err = decide(st.scram); err != nil {
				return nil, err
			}
			for i := range changes {
				c := &changes[i]
				r := []metadataRecord{scramRecord(c.User, c.Credential)}
				if c.Credential != nil {
					if r, err = s.grow(r[0]); err != nil {
						return nil, err
					}
				}
				records = append(records, r...)
			}
			return records, nil
		},
		publish: func() {
			if len(changes) == 0 {
				return
			}
			next := maps.Clone(s.ScramCredentials())
			if next == nil {
				next = ScramCredentials{}
			}
			for _, c := range changes {
				if c.Credential == nil {
					delete(next, c.User)
				} else {
					next[c.User] = *c.Credential
				}
			}
			s.scram.Store(&next)
		},
	})
}

// Sorted returns the users whose credentials there are, by name and then by mechanism.
func (c ScramCredentials) Sorted() []ScramUser {
	return slices.SortedFunc(maps.Keys(c), func(a, b ScramUser) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(auth.ScramNumber(a.Mechanism), auth.ScramNumber(b.Mechanism)))
	})
}

// scramRecord is the record of type 9 that sets a credential; nil takes it away. The key is the mechanism's number, one
// byte, and the user's name; the value is salt, stored key and server key, each with its length before it, and the
// iterations, uvarint.
func scramRecord(u ScramUser, c *auth.ScramCredential) metadataRecord {
	r := metadataRecord{key: append([]byte{metadataScramKey, byte(auth.ScramNumber(u.Mechanism))}, u.Name...)}
	if c != nil {
		r.value = []byte{metadataValueVersion}
		for _, b := range [][]byte{c.Salt, c.StoredKey, c.ServerKey} {
			r.value = appendText(r.value, string(b))
		}
		r.value = record.AppendUvarint(r.value, uint64(c.Iterations))
	}
	return r
}

// scramUserOf reads the user from a record's key without its type.
func scramUserOf(key []byte) (u ScramUser, ok bool) {
	if len(key) < 2 { // a user has a name
		return u, false
	}
	u.Mechanism, ok = auth.ScramMechanism(int8(key[0]))
	u.Name = string(key[1:])
	return u, ok
}

func (st *metadataState) applyScram(key []byte, c *fields) {
	u, ok := scramUserOf(key)
	if !ok {
		c.bad = true
		return
	}
	if !c.present {
		delete(st.scram, u)
		return
	}
	credential := auth.ScramCredential{Salt: []byte(c.text()), StoredKey: []byte(c.text()), ServerKey: []byte(c.text()), Iterations: int(c.count())}
	if !c.bad {
		st.scram[u] = credential
	}
}

// undoScram is undo of a record of type 9.
func (st *metadataState) undoScram(key []byte) func() {
	u, _ := scramUserOf(key)
	if old, ok := st.scram[u]; ok {
		return func() { st.scram[u] = old }
	}
	return func() { delete(st.scram, u) }
}

// describeScram tells what a record of type 9 is about, and nothing that is secret.
func describeScram(key []byte, st *metadataState) string {
	u, _ := scramUserOf(key)
	if c, ok := st.scram[u]; ok {
		return fmt.Sprintf("%s credential of user %q, %d iterations", u.Mechanism, u.Name, c.Iterations)
	}
	return fmt.Sprintf("%s credential of user %q is taken away", u.Mechanism, u.Name)
}
