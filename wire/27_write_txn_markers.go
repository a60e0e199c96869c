package wire

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// WriteTxnMarkers, key 27, versions 1 and 2.
//
//	v2 transaction version of a marker (KIP-1228)
//
// It ends transactions in partitions without the transaction coordinator: by those who found one that nobody ends. (Our
// own coordinator needs no request.) An answer names each producer once, and of a partition that is named twice the last
// outcome; a marker goes to each of its partitions once. Producers, topics and partitions are in the order in which the
// request first names them.
//
// Kafka: KafkaApis.handleWriteTxnMarkersRequest.
//
// Differs from Kafka: a marker of no producer, or of no epoch, fails its own partitions and not the rest of the request,
// and one that names a partition twice is answered.

// writeTxnMarkers answers a WriteTxnMarkers request when its markers are durable.
func (s *Server) writeTxnMarkers(r *request, req *kmsg.WriteTxnMarkersRequest) (*kmsg.WriteTxnMarkersResponse, error) {
	a := markerAnswers{
		resp:       req.ResponseKind().(*kmsg.WriteTxnMarkersResponse),
		producers:  make(map[int64]int),
		topics:     make(map[markerPlace]int),
		partitions: make(map[markerPlace]int),
	}
	denied := !s.mayDo(r, opAlter, resourceCluster, clusterResource) && !s.authorizeCluster(r, opClusterAction)
	ctx, cancel := context.WithTimeout(r.context(), s.requestTimeout())
	defer cancel()
	for i := range req.Markers {
		m := &req.Markers[i]
		written := make(map[fetchKey]bool) // by this marker
		for j := range m.Topics {
			t := &m.Topics[j]
			for _, partition := range t.Partitions {
				place := markerPlace{producerID: m.ProducerID, fetchKey: fetchKey{topic: t.Topic, partition: partition}}
				switch {
				case denied:
					a.set(place, kerr.ClusterAuthorizationFailed.Code)
				case !written[place.fetchKey]:
					written[place.fetchKey] = true
					a.set(place, errorCode(s.writeMarker(ctx, &a, m, place)))
				}
			}
		}
	}
	for _, w := range a.waits {
		if err := w.log.WaitDurable(ctx, w.done); err != nil {
			a.set(w.place, errorCode(err))
		}
	}
	return a.resp, nil
}

// requestTimeout is how long Kafka's brokers wait for each other.
func (s *Server) requestTimeout() time.Duration {
	return time.Duration(s.config.Int("request.timeout.ms")) * time.Millisecond
}

// writeMarker writes a marker to one partition. What is not durable yet is put down to be waited for.
func (s *Server) writeMarker(ctx context.Context, a *markerAnswers, m *kmsg.WriteTxnMarkersRequestMarker, place markerPlace) error {
	topic, ok := s.store.Topic(place.topic)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	log, ok := topic.Partition(place.partition)
	if !ok || log.Status() == storage.StatusOffline {
		return kerr.UnknownTopicOrPartition
	}
	if m.ProducerID < 0 || m.ProducerEpoch < 0 {
		return kerr.UnknownServerError
	}
	marker, v2 := record.Marker{Commit: m.Committed, CoordinatorEpoch: m.CoordinatorEpoch}, m.TransactionVersion >= 2
	if place.topic == groups.OffsetsTopic {
		err := s.groups.EndTransaction(ctx, place.partition, m.ProducerID, m.ProducerEpoch, marker, v2)
		switch errorCode(err) {
		case kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.NotCoordinator.Code:
			return kerr.NotLeaderForPartition // what a coordinator expects from a partition that is not ready
		}
		return err
	}
	batch := record.EndTxnMarker(m.ProducerID, m.ProducerEpoch, marker, s.now().UnixMilli(), log.LeaderEpoch())
	done, err := log.Append(batch, storage.AppendOptions{Origin: storage.OriginCoordinator, TransactionV2: v2})
	if err == nil {
		a.waits = append(a.waits, markerWait{log: log, done: done, place: place})
	}
	return err
}

// markerAnswers is the answer as it is made.
type markerAnswers struct {
	resp *kmsg.WriteTxnMarkersResponse
	// Where in the answer a producer, a topic of one, and a partition of that is.
	producers          map[int64]int
	topics, partitions map[markerPlace]int
	waits              []markerWait
}

// markerPlace is a partition that a producer's transaction is ended in.
type markerPlace struct {
	producerID int64
	fetchKey
}

// markerWait is a marker that is not known to be on the disk.
type markerWait struct {
	log   *storage.Log
	done  storage.Appended
	place markerPlace
}

// set answers for a partition; a later answer replaces an earlier one.
func (a *markerAnswers) set(place markerPlace, code int16) {
	i, ok := a.producers[place.producerID]
	if !ok {
		i = len(a.resp.Markers)
		a.producers[place.producerID] = i
		a.resp.Markers = append(a.resp.Markers, kmsg.WriteTxnMarkersResponseMarker{ProducerID: place.producerID})
	}
	m := &a.resp.Markers[i]
	ofTopic := place
	ofTopic.partition = 0
	j, ok := a.topics[ofTopic]
	if !ok {
		j = len(m.Topics)
		a.topics[ofTopic] = j
		m.Topics = append(m.Topics, kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: place.topic})
	}
	t := &m.Topics[j]
	k, ok := a.partitions[place]
	if !ok {
		k = len(t.Partitions)
		a.partitions[place] = k
		t.Partitions = append(t.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: place.partition})
	}
	t.Partitions[k].ErrorCode = code
}
