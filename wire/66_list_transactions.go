package wire

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/txn"
)

// ListTransactions, key 66, versions 0 to 2 (KIP-664).
//
//	1  a choice of those that are open for longer than a time (KIP-994)
//	2  a choice by a regular expression of the whole id (KIP-1152)
//
// All that is chosen by has to hold. Ids that the caller may not describe are left out. A partition of transactions that
// is still being read fails the whole list.
//
// Kafka: KafkaApis.handleListTransactionsRequest, TransactionStateManager.listTransactionStates. Its regular expressions
// are those of RE2/J, which is a port of Go's.
//
// Differs from Kafka: ids come in order, in Kafka in none.

// maxDurationMs is the longest time that a time.Duration holds, in milliseconds.
const maxDurationMs = maxRetentionMs

// listTransactions answers a ListTransactions request.
func (s *Server) listTransactions(r *request, req *kmsg.ListTransactionsRequest) (*kmsg.ListTransactionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	choice := txn.ListRequest{States: req.StateFilters, ProducerIDs: req.ProducerIDFilters, MinDuration: -1}
	if d := req.DurationFilterMillis; r.version >= 1 && d >= 0 {
		choice.MinDuration = time.Duration(min(d, maxDurationMs)) * time.Millisecond
	}
	if r.version >= 2 {
		choice.Pattern = deref(req.TransactionalIDPattern)
	}
	listed, err := s.txns.List(choice)
	if err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	resp.UnknownStateFilters = listed.UnknownStates
	for _, t := range listed.Transactions {
		if !s.mayDo(r, opDescribe, resourceTransactionalID, t.TransactionalID) {
			continue
		}
		answer := kmsg.NewListTransactionsResponseTransactionState()
		answer.TransactionalID, answer.ProducerID, answer.TransactionState = t.TransactionalID, t.ProducerID, t.State
		resp.TransactionStates = append(resp.TransactionStates, answer)
		if err := r.answerGrows(12 + len(t.TransactionalID) + len(t.State)); err != nil {
			return nil, err
		}
	}
	return resp, nil
}
