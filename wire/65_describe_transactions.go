package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeTransactions, key 65, version 0 (KIP-664).
//
// Of a transaction that is being ended, the partitions are those whose markers are not written yet. Topics that the
// caller may not describe are left out.
//
// Kafka: KafkaApis.handleDescribeTransactionsRequest, TransactionCoordinator.handleDescribeTransactions.
//
// Differs from Kafka: topics and partitions come in order, in Kafka in none.

// describeTransactions answers a DescribeTransactions request.
func (s *Server) describeTransactions(r *request, req *kmsg.DescribeTransactionsRequest) (*kmsg.DescribeTransactionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	var err error
	resp.TransactionStates, err = describeEach(r, req.TransactionalIDs, func(id string) kmsg.DescribeTransactionsResponseTransactionState {
		return s.describeTransaction(r, id)
	}, func(t *kmsg.DescribeTransactionsResponseTransactionState) int {
		size := 40 + len(t.TransactionalID) + len(t.State)
		for i := range t.Topics {
			size += 8 + len(t.Topics[i].Topic) + 4*len(t.Topics[i].Partitions)
		}
		return size
	}, func(id string) kmsg.DescribeTransactionsResponseTransactionState {
		answer := kmsg.NewDescribeTransactionsResponseTransactionState()
		answer.TransactionalID, answer.ErrorCode = id, errorCode(errRepeated)
		return answer
	})
	return resp, err
}

// describeTransaction answers for one transactional id.
func (s *Server) describeTransaction(r *request, id string) kmsg.DescribeTransactionsResponseTransactionState {
	answer := kmsg.NewDescribeTransactionsResponseTransactionState()
	answer.TransactionalID = id
	if !s.authorize(r, opDescribe, resourceTransactionalID, id) {
		answer.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return answer
	}
	d, err := s.txns.Describe(id)
	if err != nil {
		answer.ErrorCode = errorCode(err)
		return answer
	}
	answer.State, answer.ProducerID, answer.ProducerEpoch = d.State, d.Producer.ID, d.Producer.Epoch
	answer.TimeoutMillis, answer.StartTimestamp = int32(d.Timeout.Milliseconds()), d.StartMs
	for partitions := d.Partitions; len(partitions) > 0; {
		topic := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
		topic.Topic = partitions[0].Topic
		for len(partitions) > 0 && partitions[0].Topic == topic.Topic {
			topic.Partitions, partitions = append(topic.Partitions, partitions[0].Partition), partitions[1:]
		}
		if s.authorize(r, opDescribe, resourceTopic, topic.Topic) {
			answer.Topics = append(answer.Topics, topic)
		}
	}
	return answer
}
