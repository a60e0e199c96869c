package wire

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// apis is the protocol surface, once: every key that is served, the versions accepted, and who answers. ApiVersions,
// the compatibility page and the golden surface are all made from it. The ranges are those of Apache Kafka 4.4.
//
// Rows are in key order: key, lowest version, highest version, handler.
var apis = table(
	routeProduce(0, 3, 13, (*Server).produce).advertiseFrom(0), // librdkafka needs to see version 0; Kafka: ApiKeys
	route(1, 4, 18, (*Server).fetch).parking(),
	route(2, 1, 11, (*Server).listOffsets),
	route(3, 0, 13, (*Server).metadata),
	route(8, 2, 10, (*Server).offsetCommit),
	route(9, 1, 10, (*Server).offsetFetch),
	route(10, 0, 6, (*Server).findCoordinator),
	route(11, 0, 9, (*Server).joinGroup).parking(),
	route(12, 0, 4, (*Server).heartbeat),
	route(13, 0, 5, (*Server).leaveGroup),
	route(14, 0, 5, (*Server).syncGroup).parking(),
	route(15, 0, 6, (*Server).describeGroups),
	route(16, 0, 5, (*Server).listGroups),
	route(17, 0, 1, (*Server).saslHandshake),
	route(18, 0, 5, (*Server).apiVersions),
	route(19, 2, 7, (*Server).createTopics),
	route(20, 1, 6, (*Server).deleteTopics),
	route(21, 0, 2, (*Server).deleteRecords),
	route(22, 0, 5, (*Server).initProducerID),
	route(23, 2, 4, (*Server).offsetForLeaderEpoch),
	route(24, 0, 5, (*Server).addPartitionsToTxn),
	route(25, 0, 4, (*Server).addOffsetsToTxn),
	route(26, 0, 5, (*Server).endTxn),
	route(27, 1, 2, (*Server).writeTxnMarkers),
	route(28, 0, 6, (*Server).txnOffsetCommit),
	route(29, 1, 3, (*Server).describeACLs),
	route(30, 1, 3, (*Server).createACLs),
	route(31, 1, 3, (*Server).deleteACLs),
	route(32, 1, 4, (*Server).describeConfigs),
	route(33, 0, 2, (*Server).alterConfigs),
	route(35, 1, 5, (*Server).describeLogDirs),
	route(36, 0, 2, (*Server).saslAuthenticate),
	route(37, 0, 3, (*Server).createPartitions),
	route(42, 0, 3, (*Server).deleteGroups),
	route(43, 0, 2, (*Server).electLeaders),
	route(44, 0, 1, (*Server).incrementalAlterConfigs),
	route(45, 0, 1, (*Server).alterPartitionReassignments),
	route(46, 0, 0, (*Server).listPartitionReassignments),
	route(47, 0, 0, (*Server).offsetDelete),
	route(48, 0, 1, (*Server).describeClientQuotas),
	route(49, 0, 1, (*Server).alterClientQuotas),
	route(50, 0, 0, (*Server).describeUserScramCredentials),
	route(51, 0, 0, (*Server).alterUserScramCredentials),
	route(60, 0, 2, (*Server).describeCluster),
	route(61, 0, 0, (*Server).describeProducers),
	route(65, 0, 0, (*Server).describeTransactions),
	route(66, 0, 2, (*Server).listTransactions),
	route(68, 0, 1, (*Server).consumerGroupHeartbeat),
	route(69, 0, 1, (*Server).consumerGroupDescribe),
	route(74, 0, 1, (*Server).listConfigResources),
	route(75, 0, 0, (*Server).describeTopicPartitions),
	route(76, 1, 1, (*Server).shareGroupHeartbeat),
	route(77, 1, 1, (*Server).shareGroupDescribe),
	route(78, 1, 2, (*Server).shareFetch).parking(),
	route(79, 1, 2, (*Server).shareAcknowledge),
	route(90, 0, 1, (*Server).describeShareGroupOffsets),
	route(91, 0, 0, (*Server).alterShareGroupOffsets),
	route(92, 0, 0, (*Server).deleteShareGroupOffsets),
)

// api is one row of the table.
type api struct {
	key      int16
	min, max int16 // versions accepted
	// advertisedMin is the lowest version that ApiVersions names; min but for Produce.
	advertisedMin int16
	// flexibleFrom is the first version with tag sections; above max when there is none.
	flexibleFrom int16
	// parks says that requests may wait for other clients for long. Their handlers keep little of the message meanwhile.
	parks bool

	// newRequest returns an empty request to decode into.
	newRequest func() kmsg.Request
	// serve answers a request. No response (nil) means none is sent. An error drops the connection. Nil for an api
	// that has start.
	serve func(*Server, *request, kmsg.Request) (response, error)
	// start does what must happen in order and returns what waits for it and then answers; see routeProduce.
	start func(*Server, *request, kmsg.Request) (finish func(context.Context) (response, error), err error)
}

// requestOf and responseOf tie a message type to its pointer, which is what has the methods.
type requestOf[T any] interface {
	*T
	kmsg.Request
}
type responseOf[T any] interface {
	*T
	response
}

// route is the row of an api whose handler answers in one step. The handler runs alone on its connection: everything
// before it is answered, nothing after it has started. A nil response without an error sends none; an error drops the
// connection.
func route[Q any, PQ requestOf[Q], R any, PR responseOf[R]](key, minVersion, maxVersion int16, h func(*Server, *request, PQ) (PR, error)) api {
	return api{
		key: key, min: minVersion, max: maxVersion, advertisedMin: minVersion,
		newRequest: func() kmsg.Request { return PQ(new(Q)) },
		serve: func(s *Server, r *request, req kmsg.Request) (response, error) {
			resp, err := h(s, r, req.(PQ))
			if resp == nil || err != nil {
				return nil, err
			}
			return resp, nil
		},
	}
}

// routeProduce is the row of an api whose handler works in two steps, so that the next request of the same kind may
// start while this one waits: start runs in the order of the requests; finish, which it returns, waits and answers, in
// the same order. finish gets a context that ends only when the server gives up waiting, not when the peer leaves:
// what was started is finished. A nil finish is an answer without a response.
func routeProduce[Q any, PQ requestOf[Q], R any, PR responseOf[R]](key, minVersion, maxVersion int16, h func(*Server, *request, PQ) (func(context.Context) (PR, error), error)) api {
	return api{
		key: key, min: minVersion, max: maxVersion, advertisedMin: minVersion,
		newRequest: func() kmsg.Request { return PQ(new(Q)) },
		start: func(s *Server, r *request, req kmsg.Request) (func(context.Context) (response, error), error) {
			finish, err := h(s, r, req.(PQ))
			if finish == nil || err != nil {
				return nil, err
			}
			return func(ctx context.Context) (response, error) {
				resp, err := finish(ctx)
				if resp == nil || err != nil {
					return nil, err
				}
				return resp, nil
			}, nil
		},
	}
}

// advertiseFrom lets ApiVersions name a lower version than is accepted.
func (a api) advertiseFrom(version int16) api {
	a.advertisedMin = version
	return a
}

// parking says that requests may wait for other clients.
func (a api) parking() api {
	a.parks = true
	return a
}

// apiTable finds a row by its key.
type apiTable struct {
	rows  []api // in key order
	byKey []*api
}

// table checks the rows, which are literals: a fault in them is our bug.
func table(rows ...api) *apiTable {
	t := &apiTable{rows: rows}
	last := int16(-1)
	for i := range rows {
		a := &rows[i]
		if a.key <= last {
			panic(fmt.Sprintf("wire: api key %d after %d", a.key, last))
		}
		req := a.newRequest()
		if req.Key() != a.key {
			panic(fmt.Sprintf("wire: api key %d has a handler for key %d", a.key, req.Key()))
		}
		if a.min < a.advertisedMin || a.max < a.min || a.max > req.MaxVersion() {
			panic(fmt.Sprintf("wire: api key %d has versions %d to %d, codec's highest is %d", a.key, a.min, a.max, req.MaxVersion()))
		}
		a.flexibleFrom = flexibleFrom(req)
		last = a.key
	}
	t.byKey = make([]*api, last+1)
	for i := range rows {
		t.byKey[rows[i].key] = &rows[i]
	}
	return t
}

// flexibleFrom returns the first flexible version of a request, one above the codec's highest when there is none.
func flexibleFrom(req kmsg.Request) int16 {
	for v := range req.MaxVersion() + 1 {
		req.SetVersion(v)
		if req.IsFlexible() {
			return v
		}
	}
	return req.MaxVersion() + 1
}

// find returns the row of key, nil when it is not served.
func (t *apiTable) find(key int16) *api {
	if key < 0 || int(key) >= len(t.byKey) {
		return nil
	}
	return t.byKey[key]
}

// serves reports whether version is accepted.
func (a *api) serves(version int16) bool { return a.min <= version && version <= a.max }
