package storage

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kaen-log/gateway/storage/record"
)

// QuotaEntity is who a client quota is for: of each part that is set, one by name, or all that have no quota of their
// own. What parts go together, and what the quotas mean, is the caller's affair.
type QuotaEntity struct {
	User, ClientID, IP QuotaName
}

// QuotaName is one part of a QuotaEntity. The zero value says that the entity has no such part.
type QuotaName struct {
	Set  bool
	Name string // "" for the default
}

// ClientQuotas are the values of quotas by their keys, for each entity that has one. They are immutable.
type ClientQuotas map[QuotaEntity]map[string]float64

// QuotaChange sets one quota of an entity, or takes it away.
type QuotaChange struct {
	Entity QuotaEntity
	Key    string
	Value  float64 // any number but NaN
	Remove bool
}

// ClientQuotas returns the quotas as of the last change. Nobody may change them.
func (s *Store) ClientQuotas() ClientQuotas {
	if q := s.quotas.Load(); q != nil {
		return *q
	}
	return nil
}

// AlterClientQuotas makes all the changes, in their order, or none. It returns when they are durable.
func (s *Store) AlterClientQuotas(changes []QuotaChange) error {
	var after map[QuotaEntity]map[string]float64
	return s.metadata.commit(&metadataChange{
		build: func(st *metadataState) ([]metadataRecord, error) {
			after = changedQuotas(st.quotas, changes)
			records := make([]metadataRecord, 0, len(after))
			for _, e := range sortedEntities(after) {
				if !maps.Equal(st.quotas[e], after[e]) {
					records = append(records, quotasRecord(e, after[e]))
				}
			}
			return records, nil
		},
		publish: func() {
			all := maps.Clone(s.ClientQuotas())
			if all == nil {
				all = make(ClientQuotas)
			}
			for e, quotas := range after {
				if len(quotas) == 0 {
					delete(all, e)
				} else {
					all[e] = quotas
				}
			}
			s.quotas.Store(&all)
		},
	})
}

// changedQuotas returns what the entities that the changes are about have after them; some may have nothing.
func changedQuotas(before ClientQuotas, changes []QuotaChange) map[QuotaEntity]map[string]float64 {
	after := make(map[QuotaEntity]map[string]float64)
	for _, c := range changes {
		quotas, ok := after[c.Entity]
		if !ok {
			if quotas = maps.Clone(before[c.Entity]); quotas == nil {
				quotas = make(map[string]float64)
			}
			after[c.Entity] = quotas
		}
		if c.Remove {
			delete(quotas, c.Key)
		} else {
			quotas[c.Key] = c.Value
		}
	}
	return after
}

// parts returns the parts of an entity in the order of the bits of its key in the metadata log.
func (e *QuotaEntity) parts() [3]*QuotaName { return [3]*QuotaName{&e.User, &e.ClientID, &e.IP} }

// Compare orders entities: those with a user first, by its name, then in the same way by client id and address.
func (e QuotaEntity) Compare(other QuotaEntity) int {
	a, b := e.parts(), other.parts()
	for i := range a {
		switch {
		case a[i].Set && !b[i].Set:
			return -1
		case !a[i].Set && b[i].Set:
			return 1
		}
		if c := strings.Compare(a[i].Name, b[i].Name); c != 0 {
			return c
		}
	}
	return 0
}

func sortedEntities[M ~map[QuotaEntity]map[string]float64](m M) []QuotaEntity {
	return slices.SortedFunc(maps.Keys(m), QuotaEntity.Compare)
}

// quotasRecord is the record of what an entity has, of type 11. Its key has a byte with a bit for each part of the
// entity that is set, and their names; its value a count, and for each quota its key and the bits of its value.
func quotasRecord(e QuotaEntity, quotas map[string]float64) metadataRecord {
	r := metadataRecord{key: []byte{metadataQuotasKey, 0}}
	for i, p := range e.parts() {
		if p.Set {
			r.key[1] |= 1 << i
			r.key = appendText(r.key, p.Name)
		}
	}
	if len(quotas) == 0 {
		return r
	}
	r.value = record.AppendUvarint([]byte{metadataValueVersion}, uint64(len(quotas)))
	for _, key := range slices.Sorted(maps.Keys(quotas)) {
		r.value = binary.BigEndian.AppendUint64(appendText(r.value, key), math.Float64bits(quotas[key]))
	}
	return r
}

// quotaEntity reads the entity from a record's key without its type.
func quotaEntity(key []byte) (e QuotaEntity, ok bool) {
	c := fields{b: key, present: true}
	set := c.uint(1)
	for i, p := range e.parts() {
		if set&(1<<i) != 0 {
			p.Set, p.Name = true, c.text()
		}
	}
	return e, !c.bad && len(c.b) == 0 && set != 0 && set < 1<<3
}

func (st *metadataState) applyQuotas(key []byte, c *fields) {
	e, ok := quotaEntity(key)
	if !ok {
		c.bad = true
		return
	}
	quotas := make(map[string]float64)
	for n := c.count(); n > 0 && !c.bad; n-- {
		key := c.text()
		value := math.Float64frombits(c.uint(8))
		c.bad = c.bad || math.IsNaN(value)
		quotas[key] = value
	}
	switch {
	case c.bad:
	case len(quotas) == 0:
		delete(st.quotas, e)
	default:
		st.quotas[e] = quotas
	}
}

// undoQuotas is undo of a record of type 11.
func (st *metadataState) undoQuotas(key []byte) func() {
	e, _ := quotaEntity(key)
	if old, ok := st.quotas[e]; ok {
		return func() { st.quotas[e] = old }
	}
	return func() { delete(st.quotas, e) }
}

func describeQuotas(key []byte, st *metadataState) string {
	e, _ := quotaEntity(key)
	var who []string
	for i, p := range e.parts() {
		if p.Set {
			name := "by default"
			if p.Name != "" {
				name = fmt.Sprintf("%q", p.Name)
			}
			who = append(who, [...]string{"user", "client id", "address"}[i]+" "+name)
		}
	}
	var what []string
	for _, k := range slices.Sorted(maps.Keys(st.quotas[e])) {
		what = append(what, fmt.Sprintf("%s=%g", k, st.quotas[e][k]))
	}
	if len(what) == 0 {
		what = []string{"none"}
	}
	return fmt.Sprintf("quotas of %s: %s", strings.Join(who, ", "), strings.Join(what, " "))
}
