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
// Differs from Kafka: a marker of no producer, or of no epoch, fails its own partitions and not the rest of the request;
// and Kafka never answers a request in which a marker names a partition twice, or one among several names none that
// there is.

// unknownTransactionVersion stands for none, as a marker has it that a follower copies. Kafka: ProducerAppendInfo.TV_UNKNOWN.
const unknownTransactionVersion = -1

// writeTxnMarkers answers a WriteTxnMarkers request when its markers are durable.
func (s *Server) writeTxnMarkers(r *request, req *kmsg.WriteTxnMarkersRequest) (*kmsg.WriteTxnMarkersResponse, error) {
	a := markerAnswers{
		resp:      req.ResponseKind().(*kmsg.WriteTxnMarkersResponse),
		producers: make(map[int64]int), topics: make(map[markerTopic]*markerTopicAnswers),
	}
	denied := !s.mayDo(r, opAlter, resourceCluster, clusterResource) && !s.authorizeCluster(r, opClusterAction)
	ctx, cancel := context.WithTimeout(r.context(), s.requestTimeout())
	defer cancel()
	for i := range req.Markers {
		m := &req.Markers[i]
		for j := range m.Topics {
			t := &m.Topics[j]
			if len(t.Partitions) == 0 {
				continue
			}
			topic, _ := s.store.Topic(t.Topic)
			answers := a.topic(m.ProducerID, t.Topic)
			for _, partition := range t.Partitions {
				at, again := answers.place(&a, int32(i), partition)
				switch {
				case denied:
					a.partition(at).ErrorCode = kerr.ClusterAuthorizationFailed.Code
				case !again:
					a.partition(at).ErrorCode = errorCode(s.writeMarker(ctx, &a, at, m, topic, partition))
				}
			}
		}
	}
	for _, w := range a.waits {
		if err := w.log.WaitDurable(ctx, w.done); err != nil {
			a.partition(w.at).ErrorCode = errorCode(err)
		}
	}
	return a.resp, nil
}

// requestTimeout is how long Kafka's brokers wait for each other.
func (s *Server) requestTimeout() time.Duration {
	return time.Duration(s.config.Int("request.timeout.ms")) * time.Millisecond
}

// writeMarker writes a marker to one partition of a topic, nil for one that is not there. What is not durable yet is put
// down to be waited for.
func (s *Server) writeMarker(ctx context.Context, a *markerAnswers, at markerPlace, m *kmsg.WriteTxnMarkersRequestMarker, topic *storage.Topic, partition int32) error {
	if topic == nil {
		return kerr.UnknownTopicOrPartition
	}
	log, ok := topic.Partition(partition)
	if !ok || log.Status() == storage.StatusOffline {
		return kerr.UnknownTopicOrPartition
	}
	if m.ProducerID < 0 || m.ProducerEpoch < 0 || m.TransactionVersion == unknownTransactionVersion {
		return kerr.UnknownServerError
	}
	marker, v2 := record.Marker{Commit: m.Committed, CoordinatorEpoch: m.CoordinatorEpoch}, m.TransactionVersion >= 2
	if topic.Name() == groups.OffsetsTopic {
		err := s.groups.EndTransaction(ctx, partition, m.ProducerID, m.ProducerEpoch, marker, v2)
		switch errorCode(err) {
		case kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.NotCoordinator.Code:
			return kerr.NotLeaderForPartition // what a coordinator expects from a partition that is not ready
		}
		return err
	}
	batch := record.EndTxnMarker(m.ProducerID, m.ProducerEpoch, marker, s.now().UnixMilli(), record.NoLeaderEpoch)
	done, err := log.Append(batch, storage.AppendOptions{Origin: storage.OriginCoordinator, TransactionV2: v2})
	if err == nil {
		a.waits = append(a.waits, markerWait{log: log, done: done, at: at})
	}
	return err
}

// markerAnswers is the answer as it is made.
type markerAnswers struct {
	resp      *kmsg.WriteTxnMarkersResponse
	producers map[int64]int // where in the answer they are
	topics    map[markerTopic]*markerTopicAnswers
	waits     []markerWait
}

// markerTopic is a topic that a producer's transaction is ended in.
type markerTopic struct {
	producerID int64
	topic      string
}

// markerTopicAnswers are the answers for its partitions.
type markerTopicAnswers struct {
	producer, topic int // where in the answer it is
	partitions      map[int32]markerPartition
}

// markerPartition is one that was named.
type markerPartition struct {
	at     int32 // where in its topic's answers
	marker int32 // which named it last
}

// markerPlace is where in the answer a partition is.
type markerPlace struct{ producer, topic, partition int }

// markerWait is a marker that is not known to be on the disk.
type markerWait struct {
	log  *storage.Log
	done storage.Appended
	at   markerPlace
}

// topic finds the answers for a topic, which begin when it is named first.
func (a *markerAnswers) topic(producerID int64, name string) *markerTopicAnswers {
	key := markerTopic{producerID, name}
	if t := a.topics[key]; t != nil {
		return t
	}
	at, known := a.producers[producerID]
	if !known {
		at = len(a.resp.Markers)
		a.producers[producerID] = at
		a.resp.Markers = append(a.resp.Markers, kmsg.WriteTxnMarkersResponseMarker{ProducerID: producerID})
	}
	m := &a.resp.Markers[at]
	t := &markerTopicAnswers{producer: at, topic: len(m.Topics), partitions: make(map[int32]markerPartition)}
	m.Topics = append(m.Topics, kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: name})
	a.topics[key] = t
	return t
}

// place finds the answer for a partition; again says that the marker has named it before.
func (t *markerTopicAnswers) place(a *markerAnswers, marker, partition int32) (at markerPlace, again bool) {
	out := &a.resp.Markers[t.producer].Topics[t.topic]
	p, known := t.partitions[partition]
	if !known {
		p.at = int32(len(out.Partitions))
		out.Partitions = append(out.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: partition})
	}
	again = known && p.marker == marker
	p.marker = marker
	t.partitions[partition] = p
	return markerPlace{t.producer, t.topic, int(p.at)}, again
}

// partition is the answer at a place.
func (a *markerAnswers) partition(at markerPlace) *kmsg.WriteTxnMarkersResponseMarkerTopicPartition {
	return &a.resp.Markers[at.producer].Topics[at.topic].Partitions[at.partition]
}
