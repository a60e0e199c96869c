package groups

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/kaen-log/gateway/storage"
)

// env is what machines know of the world besides their calls. Its functions may be
// called under a shard's lock.
type env struct {
	config *Config
	topics topicView
	// newID returns a random id as Java's UUID.toString writes it; newUUID one as
	// Kafka's Uuid.toString does.
	newID   func() string
	newUUID func() string
	// initialize has states of share partitions made that a group has asked for, and
	// tells it later. It does not block.
	initialize func(group string, asked sharedTopics, starts []ShareStart)
}

// newEnv returns what is true outside of tests.
func newEnv(config *Config, store *storage.Store) *env {
	return &env{config: config, topics: topicsOf(store), newID: randomID, newUUID: randomUUID}
}

// topicsOf lets machines see a store's topics.
func topicsOf(store *storage.Store) topicView {
	info := func(t *storage.Topic, ok bool) (topicInfo, bool) {
		if !ok {
			return topicInfo{}, false
		}
		return topicInfo{name: t.Name(), id: t.ID(), partitions: t.Partitions()}, true
	}
	return topicView{
		version: store.TopicsVersion,
		byName:  func(name string) (topicInfo, bool) { return info(store.Topic(name)) },
		byID:    func(id storage.TopicID) (topicInfo, bool) { return info(store.TopicByID(id)) },
		names: func() []string {
			topics := store.Topics()
			out := make([]string, len(topics))
			for i, t := range topics {
				out[i] = t.Name()
			}
			return out
		},
	}
}

// random returns the bytes of a UUID of version 4.
func random() (b [16]byte) {
	_, _ = rand.Read(b[:]) // never fails; see crypto/rand
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

// randomID is what member ids end with. Kafka: UUID.randomUUID().toString().
func randomID() string {
	b := random()
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// randomUUID is an id in Kafka's own text, which never begins with a dash, so that
// tools take it as an argument. Kafka: Uuid.randomUuid().
func randomUUID() string {
	for {
		b := random()
		if s := base64.RawURLEncoding.EncodeToString(b[:]); s[0] != '-' {
			return s
		}
	}
}
