package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// Produce, key 0, versions 3 to 13. ApiVersions names 0 as the lowest (KAFKA-18659).
//
//	v3  transactional id, batches of magic 2
//	v5  log start offset
//	v7  zstd (KIP-110)
//	v8  record errors and message (KIP-467)
//	v9  flexible
//	v10 leader and its address for NOT_LEADER_OR_FOLLOWER, which a single broker never sends (KIP-951)
//	v12 transactions V2 (KIP-890)
//	v13 topic ids (KIP-516)
//
// Kafka: KafkaApis.handleProduceRequest, ProduceRequest.validateRecords, ReplicaManager.appendRecords, DelayedProduce.
// Batches of transactions: produce_transactions.go.
//
// Differs from Kafka: acks=1 waits for the disk as acks=-1 does, since what is not on the disk is not visible and may be
// lost. The timeout is a second at least: Kafka's single replica acknowledges without a wait, so that a client with a
// timeout of 0 never learns of it.

// shortestProduceWait is the least time that a commit gets, whatever the request says.
const shortestProduceWait = time.Second

// adminClientID is the client id that may write to internal topics. Kafka: AdminUtils.ADMIN_CLIENT_ID.
const adminClientID = "__admin_client"

// produceCall is the scratch of one Produce between its checks and its appends. It is pooled.
type produceCall struct {
	partitions []producePartition
	seen       map[fetchKey]int
	// unverified says that the logs take batches of transactions that nobody asked the coordinator about.
	unverified bool
}

// producePartition is one partition of the request.
type producePartition struct {
	topic, index int // where the request names it
	log          *storage.Log
	batch        record.Batch // the one batch
	code         int16        // why it is refused
	replaced     bool         // named again later in the request; the last mention counts

	// transactional says that the batch is of a producer's transaction. Then verification is what its append needs, and
	// notVerified why the transaction coordinator refuses it.
	transactional bool
	verification  *storage.Verification
	notVerified   error
	message       *string // goes with the code
}

var produceCalls = sync.Pool{New: func() any { return &produceCall{seen: make(map[fetchKey]int)} }}

// produceWait is an append that is not known to be on the disk.
type produceWait struct {
	log    *storage.Log
	done   storage.Appended
	answer *kmsg.ProduceResponseTopicPartition
}

// produce appends the batches of a Produce request. What it returns waits until they are durable and answers.
func (s *Server) produce(r *request, req *kmsg.ProduceRequest) (func(context.Context) (*kmsg.ProduceResponse, error), error) {
	c := produceCalls.Get().(*produceCall)
	defer c.recycle()
	transactional, err := s.refuseProduce(r, req)
	if err == nil {
		err = c.resolve(s, r, req)
	}
	if err == nil && transactional {
		err = c.verify(s, r, req)
	}
	switch {
	case err != nil && req.Acks == 0:
		return nil, err
	case err != nil:
		return answerProduce(produceErrors(req, err)), nil
	}

	resp, waits, err := c.append(s, r, req)
	resp.ThrottleMillis = r.throttleBy(s.charge(auth.ProduceQuota, r, float64(r.size)))
	switch {
	case req.Acks == 0 && err != nil: // nothing is answered, so that only the end of the connection can tell of an error
		return nil, err
	case len(waits) == 0 && req.Acks == 0:
		return nil, nil
	case len(waits) == 0:
		return answerProduce(resp), nil
	}
	req.Topics = nil // may be large: what is needed of them is in the answer
	timeout := max(time.Duration(req.TimeoutMillis)*time.Millisecond, shortestProduceWait)
	return func(ctx context.Context) (*kmsg.ProduceResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		for i := range waits {
			waits[i].wait(ctx)
		}
		if req.Acks == 0 {
			return nil, unansweredFault(waits)
		}
		return resp, nil
	}, nil
}

// unansweredFault returns the error of a Produce that is not answered, acks=0, so that its connection is dropped. What
// comes after it on the connection sees its records: it is done when they are visible.
func unansweredFault(waits []produceWait) error {
	for i := range waits {
		if code := waits[i].answer.ErrorCode; code != 0 {
			return kerr.ErrorForCode(code)
		}
	}
	return nil
}

// answerProduce is the second step of a Produce that waits for nothing.
func answerProduce(resp *kmsg.ProduceResponse) func(context.Context) (*kmsg.ProduceResponse, error) {
	return func(context.Context) (*kmsg.ProduceResponse, error) { return resp, nil }
}

// wait waits until the append is durable, or puts into the answer why it is not.
func (w *produceWait) wait(ctx context.Context) {
	err := w.log.WaitDurable(ctx, w.done)
	if err == nil {
		return
	}
	w.answer.ErrorCode = errorCode(err)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		w.answer.ErrorCode = kerr.RequestTimedOut.Code // it may still become durable, where it was appended
		return
	}
	w.answer.BaseOffset, w.answer.LogAppendTime, w.answer.LogStartOffset = -1, -1, -1
}

// refuseProduce returns why the whole request is refused, if it is: the first batch of a partition has no shape, or is of
// a transaction, and the caller may not write to the transactional id. Behind one of a transaction it looks no further.
// Kafka: RequestUtils.hasTransactionalRecords, outside of any per-partition error handling.
func (s *Server) refuseProduce(r *request, req *kmsg.ProduceRequest) (transactional bool, err error) {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			batch, _, err := cutBatch(req.Topics[i].Partitions[j].Records)
			switch {
			case err != nil:
				return false, err
			case batch == nil || batch.Magic() != 2 || !batch.Transactional():
			case req.TransactionID == nil || !s.authorize(r, opWrite, resourceTransactionalID, *req.TransactionID):
				return true, kerr.TransactionalIDAuthorizationFailed
			default:
				return true, nil
			}
		}
	}
	return false, nil
}

// produceErrors answers every partition of the request with err.
func produceErrors(req *kmsg.ProduceRequest, err error) *kmsg.ProduceResponse {
	resp := &kmsg.ProduceResponse{Version: req.Version, Topics: make([]kmsg.ProduceResponseTopic, len(req.Topics))}
	for i := range req.Topics {
		t := &req.Topics[i]
		out := &resp.Topics[i]
		out.Topic, out.TopicID = t.Topic, t.TopicID
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := &out.Partitions[j]
			p.Default()
			p.Partition, p.ErrorCode = t.Partitions[j].Partition, errorCode(err)
			if err != error(kerr.TransactionalIDAuthorizationFailed) { // Kafka: KafkaApis.handleProduceRequest gives no text
				p.ErrorMessage = errorMessage(err)
			}
			p.BaseOffset, p.LogAppendTime, p.LogStartOffset = -1, -1, -1
		}
	}
	return resp
}

// cutBatch cuts the first batch off a record set: nil when there is no whole one. The error is for bytes that can be
// no batch at all. What is behind the last whole batch is ignored, as Kafka does.
//
// Kafka: ByteBufferLogInputStream. The batch has at least 26 bytes, so that its attributes can be read, but it need not
// have a whole header.
func cutBatch(b []byte) (batch record.Batch, rest []byte, err error) {
	const smallest = 14 // bytes behind the length of the smallest record set of the oldest format
	if len(b) < record.LogOverhead {
		return nil, nil, nil
	}
	n := int(int32(binary.BigEndian.Uint32(b[record.LengthPos:])))
	if n < smallest {
		return nil, nil, detail(kerr.CorruptMessage, "batch is smaller than any can be")
	}
	if len(b) <= record.MagicPos {
		return nil, nil, nil
	}
	if magic := int8(b[record.MagicPos]); magic < 0 || magic > 2 {
		return nil, nil, detail(kerr.CorruptMessage, "batch has an unknown magic")
	}
	n += record.LogOverhead
	if len(b) < n {
		return nil, nil, nil
	}
	return record.Batch(b[:n:n]), b[n:], nil
}

// errUnknownCodec refuses a whole request: before zstd there were no codecs to tell apart, so that Kafka looks at the codec
// where it keeps partitions apart only for errors that it knows.
var errUnknownCodec = detail(kerr.UnknownServerError, "batch has a codec that does not exist")

// checkRecords finds the one batch of a partition. Kafka: ProduceRequest.validateRecords, and of what UnifiedLog checks
// that which comes before a whole header is needed.
//
// Differs from Kafka: records that are null are no batch; Kafka fails over them and never answers.
func checkRecords(version int16, records []byte) (record.Batch, error) {
	batch, rest, err := cutBatch(records)
	switch {
	case err != nil:
		return nil, err
	case batch == nil, batch.Magic() != 2:
		return nil, kerr.InvalidRecord
	case version < 7 && batch.Codec() == record.Zstd:
		return nil, kerr.UnsupportedCompressionType
	case version < 7 && batch.Codec() > record.Zstd:
		return nil, errUnknownCodec
	}
	if second, _, err := cutBatch(rest); err != nil {
		return nil, err
	} else if second != nil {
		return nil, kerr.InvalidRecord
	}
	if len(batch) < record.HeaderSize {
		if batch.BaseOffset() != 0 {
			return nil, kerr.InvalidRecord
		}
		return nil, kerr.CorruptMessage
	}
	return batch, nil
}

// recycle gives the scratch back.
func (c *produceCall) recycle() {
	clear(c.partitions)
	c.partitions = c.partitions[:0]
	clear(c.seen)
	c.unverified = false
	produceCalls.Put(c)
}

// resolve lists the partitions of the request with their logs and batches, or why they are refused. The order of the
// checks is Kafka's. The error refuses the whole request.
func (c *produceCall) resolve(s *Server, r *request, req *kmsg.ProduceRequest) error {
	several := len(req.Topics) > 1 || len(req.Topics) == 1 && len(req.Topics[0].Partitions) > 1
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, denied := s.producedTopic(r, req.Version, t)
		internal := topic != nil && storage.IsInternalTopic(topic.Name()) && r.clientID != adminClientID
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if several {
				k := fetchKey{topic: t.Topic, id: t.TopicID, partition: p.Partition}
				if at, twice := c.seen[k]; twice {
					c.partitions[at].replaced = true
				}
				c.seen[k] = len(c.partitions)
			}
			out := producePartition{topic: i, index: j, code: denied}
			if denied == 0 {
				if err := out.check(topic, p, req, internal); err != nil {
					return err
				}
			}
			c.partitions = append(c.partitions, out)
		}
	}
	return nil
}

// producedTopic finds a topic that the caller may write to.
func (s *Server) producedTopic(r *request, version int16, t *kmsg.ProduceRequestTopic) (*storage.Topic, int16) {
	var (
		topic *storage.Topic
		found bool
		name  = t.Topic
	)
	if version >= 13 {
		if topic, found = s.store.TopicByID(t.TopicID); !found {
			return nil, kerr.UnknownTopicID.Code
		}
		name = topic.Name()
	}
	if !s.authorize(r, opWrite, resourceTopic, name) {
		return nil, kerr.TopicAuthorizationFailed.Code
	}
	if version < 13 {
		if topic, found = s.store.Topic(name); !found {
			return nil, kerr.UnknownTopicOrPartition.Code
		}
	}
	return topic, 0
}

// check does all that precedes the append of one partition. The error refuses the whole request.
func (p *producePartition) check(topic *storage.Topic, asked *kmsg.ProduceRequestTopicPartition, req *kmsg.ProduceRequest, internal bool) error {
	log, ok := topic.Partition(asked.Partition)
	if !ok {
		p.code = kerr.UnknownTopicOrPartition.Code
		return nil
	}
	batch, err := checkRecords(req.Version, asked.Records)
	switch {
	case err == errUnknownCodec:
		return err
	case err != nil:
		p.code = errorCode(err)
		return nil
	case req.Acks < -1 || req.Acks > 1:
		p.code = kerr.InvalidRequiredAcks.Code
	case internal:
		p.code = kerr.InvalidTopicException.Code
	}
	p.log, p.batch = log, batch
	p.transactional = batch.Transactional() && batch.ProducerID() >= 0
	return nil
}

// append appends what was not refused. It returns the answer, what has to be waited for, and an error if a partition
// got one, which says so to those who get no answer.
func (c *produceCall) append(s *Server, r *request, req *kmsg.ProduceRequest) (*kmsg.ProduceResponse, []produceWait, error) {
	resp := &kmsg.ProduceResponse{Version: req.Version, Topics: make([]kmsg.ProduceResponseTopic, 0, len(req.Topics))}
	all := make([]kmsg.ProduceResponseTopicPartition, 0, len(c.partitions)) // of all topics: one allocation
	waits := make([]produceWait, 0, len(c.partitions))
	c.makeDirectories(s)
	var failed error
	last := -1
	for i := range c.partitions {
		p := &c.partitions[i]
		if p.replaced {
			continue
		}
		t := &req.Topics[p.topic]
		if p.topic != last {
			last = p.topic
			resp.Topics = append(resp.Topics, kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: t.TopicID})
		}
		all = append(all, kmsg.ProduceResponseTopicPartition{})
		answer := &all[len(all)-1]
		answer.Default()
		answer.Partition = t.Partitions[p.index].Partition
		answer.BaseOffset, answer.LogAppendTime, answer.LogStartOffset = -1, -1, -1
		answer.ErrorCode, answer.ErrorMessage = p.code, p.message
		if p.code == 0 {
			if done, ok := p.append(answer, c.unverified); ok {
				waits = append(waits, produceWait{log: p.log, done: done, answer: answer})
			}
		}
		if failed == nil && answer.ErrorCode != 0 {
			failed = kerr.ErrorForCode(answer.ErrorCode)
		}
		out := &resp.Topics[len(resp.Topics)-1]
		first := len(all) - 1 - len(out.Partitions)
		out.Partitions = all[first:len(all):len(all)]
	}
	return resp, waits, failed
}

// makeDirectories makes the directories of the partitions that have none, if there are several: one after the other, as
// the appends would, takes long.
func (c *produceCall) makeDirectories(s *Server) {
	var logs []*storage.Log
	for i := range c.partitions {
		if p := &c.partitions[i]; p.code == 0 && !p.replaced && !p.log.Made() {
			logs = append(logs, p.log)
		}
	}
	if len(logs) > 1 {
		s.store.MakeDirectories(logs)
	}
}

// append appends one batch and puts the outcome into the answer; ok is false when that is an error.
func (p *producePartition) append(answer *kmsg.ProduceResponseTopicPartition, unverified bool) (done storage.Appended, ok bool) {
	done, err := p.log.Append(p.batch, storage.AppendOptions{Origin: storage.OriginClient, Verification: p.verification, Unverified: unverified})
	if err != nil {
		p.refuse(answer, err)
		return done, false
	}
	answer.BaseOffset = done.BaseOffset
	answer.LogAppendTime = done.LogAppendTimeMs
	answer.LogStartOffset = done.LogStartOffset
	return done, true
}

// refuse puts the error of an append into the answer. Kafka: ReplicaManager.appendToLocalLog: the errors that it expects
// come without a log start offset, and only records that are at fault come with a message.
func (p *producePartition) refuse(answer *kmsg.ProduceResponseTopicPartition, err error) {
	answer.ErrorCode = errorCode(err)
	switch kerr.ErrorForCode(answer.ErrorCode) {
	case kerr.UnknownTopicOrPartition, kerr.NotLeaderForPartition, kerr.MessageTooLarge, kerr.RecordListTooLarge,
		kerr.CorruptMessage, kerr.KafkaStorageError, kerr.UnknownTopicID:
	default:
		if o, err := p.log.Offsets(); err == nil {
			answer.LogStartOffset = o.LogStart
		}
	}
	invalid, ok := errors.AsType[*record.InvalidError](err)
	if !ok || len(invalid.Records) == 0 {
		return
	}
	answer.ErrorMessage = &invalid.Reason
	answer.ErrorRecords = make([]kmsg.ProduceResponseTopicPartitionErrorRecord, len(invalid.Records))
	for i := range invalid.Records {
		answer.ErrorRecords[i].RelativeOffset = invalid.Records[i].Index
		answer.ErrorRecords[i].ErrorMessage = &invalid.Records[i].Message
	}
}
