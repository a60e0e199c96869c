package storage

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/record"
)

// metadataFormat is the format of the metadata log that this code writes. It is raised when a record type is added or
// changed, or what the files of the log may look like: a store of a later format is refused as a whole, with nothing
// touched, and one of a former is written anew in this one; see metadataLog.renew.
//
//	1  offsets have no gaps; now and then the log had its whole state written to its end, and what came before removed
//	2  the log is compacted, with gaps where batches were, and begins with the batch that has the record of type 1; types
//	   9 to 11 came
const metadataFormat = 2

// The records of the metadata log. A key is a type byte and the id of what the record is about; a value is a version byte
// and the fields, strings with their length before them (unsigned varint), numbers big endian or varint. The last record of
// a key is the one that counts, and a null value, a tombstone, takes the key away, so that package cleaner compacts this
// log as any other: no record means anything by the place of another, but for the last of each key.
//
//	type             key                value, version 1
//	1 format         -                  format uint16
//	2 store          -                  cluster id string, directory id 16 bytes, adoption uint8: 0 none, 1 of a
//	                                    directory that was not stopped in order, 2 of one that was
//	3 epoch          -                  leader epoch int32, of the last start
//	4 producer ids   -                  int64, the first producer id that no block holds
//	5 topic          topic id 16 bytes  name string, partitions uvarint, adopted partitions uvarint,
//	                                    configs, unserved partitions (count, then index uvarint and reason string)
//	6 deleted topic  topic id 16 bytes  name string; kept until no directory of it is left
//	7 configs        kind byte, name    configs (count, then name and value strings, by name)
//	8 snapshot       -                  0 at its beginning, 1 at its end, uint8; only in format 1, and skipped
//	9 SCRAM          mechanism, name    salt, stored key, server key strings, iterations uvarint;
//	                                    see scramRecord
//	10 ACL           the binding, see   -
//	                 aclRecord
//	11 quotas        entity, see        quotas (count, then key string and value float64)
//	                 quotasRecord
//
// A topic's removal is one batch of two records: null for type 5, and type 6. Both are tombstones in the end, type 6 when
// it is null too. Names are those of the topics that are there: a topic's null record comes before the next topic of its
// name, and is dropped only when the records before it are.
//
// The records between the two of type 8 were the whole state as it was there. To read over them is the same as to begin
// with them: what they repeat is there already, and what is not among them was taken away before, by a record that was
// read, or was never read at all.
const (
	metadataFormatKey      = 1
	metadataStoreKey       = 2
	metadataEpochKey       = 3
	metadataProducerIDsKey = 4
	metadataTopicKey       = 5
	metadataDeletedKey     = 6
	metadataConfigsKey     = 7
	metadataSnapshotKey    = 8
	metadataScramKey       = 9
	metadataACLKey         = 10
	metadataQuotasKey      = 11
)

const metadataValueVersion = 1

// FormatError says that the data directory was written in a format that this program does not know. Nothing has been
// changed in it.
type FormatError struct {
	File   string
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has a format that this version does not read: %s", e.File, e.Reason)
}

// metadataState is what the records of the metadata log add up to. It is not safe for concurrent use.
type metadataState struct {
	format      int
	clusterID   string
	directoryID [16]byte
	adoption    adoption
	epoch       int32 // of the last start; -1 before the first
	producerIDs int64 // the first that no block holds
	topics      map[TopicID]*topicMeta
	names       map[string]TopicID // of topics
	colliding   collisions         // of topics
	deleted     map[TopicID]string // names
	configs     map[resourceKey]map[string]string
	scram       ScramCredentials
	acls        map[auth.Binding]bool // as a set
	quotas      ClientQuotas
	// shared has the configs of topics by their bytes: many topics have the same.
	shared map[string]map[string]string
}

// adoption says whose the directory was before it was ours.
type adoption uint8

const (
	notAdopted     adoption = iota
	adoptedUnclean          // another broker's that was not stopped in order: its logs may have torn tails
	adoptedClean            // another broker's
)

// topicMeta is a topic as the metadata log has it. It is immutable.
type topicMeta struct {
	id         TopicID
	name       string
	partitions int32
	adopted    int32 // partitions below it have directories of another broker
	configs    map[string]string
	unserved   map[int32]string // why a partition stays offline; nil for most topics
}

// resourceKey names a resource with configs that is not a topic.
type resourceKey struct {
	kind int8
	name string
}

// metadataRecord is a key and a value, which is nil to take the key away.
type metadataRecord struct{ key, value []byte }

func newMetadataState() *metadataState {
	return &metadataState{
		epoch:     -1,
		topics:    make(map[TopicID]*topicMeta),
		names:     make(map[string]TopicID),
		colliding: make(collisions),
		deleted:   make(map[TopicID]string),
		configs:   make(map[resourceKey]map[string]string),
		scram:     make(ScramCredentials),
		acls:      make(map[auth.Binding]bool),
		quotas:    make(ClientQuotas),
		shared:    make(map[string]map[string]string),
	}
}

// records returns the whole state, beginning with the format, in an order that depends on nothing else.
func (st *metadataState) records() []metadataRecord {
	all := []metadataRecord{
		formatRecord(metadataFormat),
		storeRecord(st.clusterID, st.directoryID, st.adoption),
		epochRecord(st.epoch),
		producerIDsRecord(st.producerIDs),
	}
	for _, id := range sortedIDs(st.topics) {
		all = append(all, topicRecord(st.topics[id]))
	}
	for _, id := range sortedIDs(st.deleted) {
		all = append(all, deletedRecord(id, st.deleted[id]))
	}
	keys := make([]resourceKey, 0, len(st.configs))
	for k := range st.configs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b resourceKey) int {
		if a.kind != b.kind {
			return int(a.kind) - int(b.kind)
		}
		if a.name < b.name {
			return -1
		}
		return 1
	})
	for _, k := range keys {
		all = append(all, configsRecord(k, st.configs[k]))
	}
	for _, u := range st.scram.Sorted() {
		all = append(all, scramRecord(u, new(st.scram[u])))
	}
	for _, b := range sortedACLs(st.acls) {
		all = append(all, aclRecord(b, true))
	}
	for _, e := range sortedEntities(st.quotas) {
		all = append(all, quotasRecord(e, st.quotas[e]))
	}
	return all
}

func sortedIDs[V any](m map[TopicID]V) []TopicID {
	ids := make([]TopicID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b TopicID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

func formatRecord(format uint16) metadataRecord {
	return metadataRecord{[]byte{metadataFormatKey}, binary.BigEndian.AppendUint16([]byte{metadataValueVersion}, format)}
}

func storeRecord(clusterID string, directoryID [16]byte, a adoption) metadataRecord {
	v := appendText([]byte{metadataValueVersion}, clusterID)
	v = append(v, directoryID[:]...)
	return metadataRecord{[]byte{metadataStoreKey}, append(v, byte(a))}
}

func epochRecord(epoch int32) metadataRecord {
	return metadataRecord{[]byte{metadataEpochKey}, binary.BigEndian.AppendUint32([]byte{metadataValueVersion}, uint32(epoch))}
}

func producerIDsRecord(next int64) metadataRecord {
	return metadataRecord{[]byte{metadataProducerIDsKey}, binary.BigEndian.AppendUint64([]byte{metadataValueVersion}, uint64(next))}
}

func topicRecord(t *topicMeta) metadataRecord {
	v := appendText([]byte{metadataValueVersion}, t.name)
	v = record.AppendUvarint(v, uint64(t.partitions))
	v = record.AppendUvarint(v, uint64(t.adopted))
	v = appendConfigs(v, t.configs)
	v = record.AppendUvarint(v, uint64(len(t.unserved)))
	indexes := make([]int32, 0, len(t.unserved))
	for i := range t.unserved {
		indexes = append(indexes, i)
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		v = appendText(record.AppendUvarint(v, uint64(i)), t.unserved[i])
	}
	return metadataRecord{topicKey(metadataTopicKey, t.id), v}
}

func deletedRecord(id TopicID, name string) metadataRecord {
	return metadataRecord{topicKey(metadataDeletedKey, id), appendText([]byte{metadataValueVersion}, name)}
}

func configsRecord(k resourceKey, configs map[string]string) metadataRecord {
	r := metadataRecord{key: append([]byte{metadataConfigsKey, byte(k.kind)}, k.name...)}
	if len(configs) > 0 {
		r.value = appendConfigs([]byte{metadataValueVersion}, configs)
	}
	return r
}

func topicKey(kind byte, id TopicID) []byte { return append([]byte{kind}, id[:]...) }

func appendText(b []byte, s string) []byte {
	return append(record.AppendUvarint(b, uint64(len(s))), s...)
}

func appendConfigs(b []byte, configs map[string]string) []byte {
	b = record.AppendUvarint(b, uint64(len(configs)))
	for _, name := range sortedKeys(configs) {
		b = appendText(appendText(b, name), configs[name])
	}
	return b
}

// apply adds a record to the state. Key and value are not kept. The error is a *metadataFault for bytes that no
// version of this code wrote, and another when the record is of a type or version that is not known.
func (st *metadataState) apply(key, value []byte) error {
	if len(key) == 0 {
		return &metadataFault{"a record without a key"}
	}
	kind, id := key[0], key[1:]
	if kind < metadataFormatKey || kind > metadataQuotasKey {
		return fmt.Errorf("a record of type %d, which is not known", kind)
	}
	if value != nil && (len(value) == 0 || value[0] != metadataValueVersion) {
		return fmt.Errorf("a record of type %d in version %x, want %d", kind, value[:min(1, len(value))], metadataValueVersion)
	}
	c := fields{present: value != nil}
	if c.present {
		c.b = value[1:]
	}
	switch kind {
	case metadataFormatKey:
		format := int(c.uint(2))
		if c.present && !c.bad && (format < 1 || format > metadataFormat) {
			return fmt.Errorf("format %d, known are 1 to %d", format, metadataFormat)
		}
		st.format = format
	case metadataStoreKey:
		st.clusterID = c.text()
		copy(st.directoryID[:], c.bytes(16))
		st.adoption = adoption(c.uint(1))
		c.bad = c.bad || st.adoption > adoptedClean
	case metadataEpochKey:
		st.epoch = int32(c.uint(4))
	case metadataProducerIDsKey:
		st.producerIDs = int64(c.uint(8))
	case metadataTopicKey:
		st.applyTopic(id, &c)
	case metadataDeletedKey:
		st.applyDeleted(id, &c)
	case metadataConfigsKey:
		st.applyConfigs(id, &c)
	case metadataSnapshotKey:
		c.bad = c.uint(1) > 1
	case metadataScramKey:
		st.applyScram(id, &c)
	case metadataACLKey:
		st.applyACL(id, &c)
	case metadataQuotasKey:
		st.applyQuotas(id, &c)
	}
	// Only what has a key of its own is ever taken away.
	if c.bad || len(c.b) != 0 || !c.present && (kind < metadataTopicKey || kind == metadataSnapshotKey) {
		return &metadataFault{fmt.Sprintf("a record of type %d with %d bytes that are not its fields", kind, len(value))}
	}
	return nil
}

func (st *metadataState) applyTopic(idBytes []byte, c *fields) {
	id, ok := c.topicID(idBytes)
	if !ok {
		return
	}
	if !c.present {
		st.setTopic(id, nil)
		return
	}
	t := &topicMeta{id: id, name: c.text(), partitions: c.count(), adopted: c.count()}
	t.configs = c.sharedConfigs(st.shared)
	for n := c.count(); n > 0 && !c.bad; n-- {
		if t.unserved == nil {
			t.unserved = make(map[int32]string)
		}
		i := c.count()
		t.unserved[i] = c.text()
	}
	if t.partitions < 1 || t.partitions > maxPartitions || ValidateTopicName(t.name) != nil {
		c.bad = true
	}
	if !c.bad {
		st.setTopic(id, t)
	}
}

// setTopic puts a topic in the place of the one of its id; nil takes that away.
func (st *metadataState) setTopic(id TopicID, t *topicMeta) {
	if old, ok := st.topics[id]; ok {
		delete(st.topics, id)
		delete(st.names, old.name)
		st.colliding.remove(old.name)
	}
	if t != nil {
		st.topics[id] = t
		st.names[t.name] = id
		st.colliding.add(t.name)
	}
}

// checkName reports whether a new topic may have the name: ErrTopicExists or ErrTopicCollision.
func (st *metadataState) checkName(name string) error {
	if _, ok := st.names[name]; ok {
		return fmt.Errorf("%w: %q", ErrTopicExists, name)
	}
	return st.colliding.check(name)
}

// undo returns a function that makes the state what it is now as far as the record of this key goes.
func (st *metadataState) undo(key []byte) func() {
	scalars := *st
	switch key[0] {
	case metadataTopicKey:
		id := TopicID(key[1:])
		old := st.topics[id]
		return func() { st.setTopic(id, old) }
	case metadataDeletedKey:
		id := TopicID(key[1:])
		if old, ok := st.deleted[id]; ok {
			return func() { st.deleted[id] = old }
		}
		return func() { delete(st.deleted, id) }
	case metadataConfigsKey:
		k := resourceKey{kind: int8(key[1]), name: string(key[2:])}
		if old, ok := st.configs[k]; ok {
			return func() { st.configs[k] = old }
		}
		return func() { delete(st.configs, k) }
	case metadataScramKey:
		return st.undoScram(key[1:])
	case metadataACLKey:
		return st.undoACL(key[1:])
	case metadataQuotasKey:
		return st.undoQuotas(key[1:])
	}
	return func() { *st = scalars } // the maps are the same ones
}

func (st *metadataState) applyDeleted(idBytes []byte, c *fields) {
	id, ok := c.topicID(idBytes)
	if !ok {
		return
	}
	if !c.present {
		delete(st.deleted, id)
		return
	}
	if name := c.text(); !c.bad {
		st.deleted[id] = name
	}
}

func (st *metadataState) applyConfigs(id []byte, c *fields) {
	if len(id) == 0 {
		c.bad = true
		return
	}
	k := resourceKey{kind: int8(id[0]), name: string(id[1:])}
	if !c.present {
		delete(st.configs, k)
		return
	}
	switch configs := c.configs(); {
	case c.bad:
	case len(configs) == 0:
		delete(st.configs, k)
	default:
		st.configs[k] = configs
	}
}

// metadataFault is damage in a record whose batch is sound.
type metadataFault struct{ reason string }

func (e *metadataFault) Error() string { return e.reason }

// fields reads the fields of a value one after the other. After the first that does not fit, bad is set and all
// others are zero.
type fields struct {
	b       []byte
	present bool // there is a value
	bad     bool
}

func (c *fields) bytes(n int) []byte {
	if !c.present {
		return nil
	}
	if c.bad || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	field := c.b[:n]
	c.b = c.b[n:]
	return field
}

func (c *fields) uint(size int) (v uint64) {
	for _, x := range c.bytes(size) {
		v = v<<8 | uint64(x)
	}
	return v
}

func (c *fields) uvarint() uint64 {
	if c.bad || !c.present {
		return 0
	}
	v, n := record.Uvarint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *fields) count() int32 {
	v := c.uvarint()
	if v > 1<<31-1 {
		c.bad = true
		return 0
	}
	return int32(v)
}

func (c *fields) text() string {
	n := c.uvarint()
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return ""
	}
	return string(c.bytes(int(n)))
}

func (c *fields) configs() map[string]string {
	n := c.count()
	if n == 0 {
		return nil
	}
	configs := make(map[string]string, min(int(n), len(c.b)/2))
	for ; n > 0 && !c.bad; n-- {
		name := c.text()
		configs[name] = c.text()
	}
	return configs
}

// sharedConfigs is configs, with the same map for the same bytes. It is not to be changed.
func (c *fields) sharedConfigs(shared map[string]map[string]string) map[string]string {
	b := c.b
	for n := 2 * uint64(c.count()); n > 0 && !c.bad; n-- {
		if size := c.uvarint(); size <= uint64(len(c.b)) {
			c.b = c.b[size:]
		} else {
			c.bad = true
		}
	}
	if c.bad {
		return nil
	}
	b = b[:len(b)-len(c.b)]
	if len(b) < 2 {
		return nil // no configs
	}
	if configs, ok := shared[string(b)]; ok {
		return configs
	}
	f := fields{b: b, present: true}
	configs := f.configs()
	if len(shared) < maxSharedConfigs {
		shared[string(b)] = configs
	}
	return configs
}

// maxSharedConfigs bounds the memory for configs that are not shared after all.
const maxSharedConfigs = 1000

// topicID reads the id in a key.
func (c *fields) topicID(key []byte) (id TopicID, ok bool) {
	if len(key) != len(id) {
		c.bad = true
		return id, false
	}
	return TopicID(key), true
}
