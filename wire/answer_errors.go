package wire

import "github.com/twmb/franz-go/pkg/kmsg"

// eachError calls f with every error code of an answer, 0 among them.
func eachError(resp response, f func(code int16)) {
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.ListOffsetsResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.MetadataResponse:
		for i := range r.Topics {
			f(r.Topics[i].ErrorCode)
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
		f(r.ErrorCode)
	case *kmsg.OffsetCommitResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.OffsetFetchResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
		f(r.ErrorCode)
		for i := range r.Groups {
			for j := range r.Groups[i].Topics {
				for k := range r.Groups[i].Topics[j].Partitions {
					f(r.Groups[i].Topics[j].Partitions[k].ErrorCode)
				}
			}
			f(r.Groups[i].ErrorCode)
		}
	case *kmsg.FindCoordinatorResponse:
		f(r.ErrorCode)
		for i := range r.Coordinators {
			f(r.Coordinators[i].ErrorCode)
		}
	case *kmsg.JoinGroupResponse:
		f(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		f(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		f(r.ErrorCode)
		for i := range r.Members {
			f(r.Members[i].ErrorCode)
		}
	case *kmsg.SyncGroupResponse:
		f(r.ErrorCode)
	case *kmsg.DescribeGroupsResponse:
		for i := range r.Groups {
			f(r.Groups[i].ErrorCode)
		}
	case *kmsg.ListGroupsResponse:
		f(r.ErrorCode)
	case *kmsg.SASLHandshakeResponse:
		f(r.ErrorCode)
	case *kmsg.ApiVersionsResponse:
		f(r.ErrorCode)
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			f(r.Topics[i].ErrorCode)
			f(r.Topics[i].ConfigErrorCode)
		}
	case *kmsg.DeleteTopicsResponse:
		for i := range r.Topics {
			f(r.Topics[i].ErrorCode)
		}
	case *kmsg.DeleteRecordsResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.InitProducerIDResponse:
		f(r.ErrorCode)
	case *kmsg.OffsetForLeaderEpochResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.AddPartitionsToTxnResponse:
		f(r.ErrorCode)
		for i := range r.Transactions {
			for j := range r.Transactions[i].Topics {
				for k := range r.Transactions[i].Topics[j].Partitions {
					f(r.Transactions[i].Topics[j].Partitions[k].ErrorCode)
				}
			}
		}
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.AddOffsetsToTxnResponse:
		f(r.ErrorCode)
	case *kmsg.EndTxnResponse:
		f(r.ErrorCode)
	case *kmsg.WriteTxnMarkersResponse:
		for i := range r.Markers {
			for j := range r.Markers[i].Topics {
				for k := range r.Markers[i].Topics[j].Partitions {
					f(r.Markers[i].Topics[j].Partitions[k].ErrorCode)
				}
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.DescribeACLsResponse:
		f(r.ErrorCode)
	case *kmsg.CreateACLsResponse:
		for i := range r.Results {
			f(r.Results[i].ErrorCode)
		}
	case *kmsg.DeleteACLsResponse:
		for i := range r.Results {
			f(r.Results[i].ErrorCode)
			for j := range r.Results[i].MatchingACLs {
				f(r.Results[i].MatchingACLs[j].ErrorCode)
			}
		}
	case *kmsg.DescribeConfigsResponse:
		for i := range r.Resources {
			f(r.Resources[i].ErrorCode)
		}
	case *kmsg.AlterConfigsResponse:
		for i := range r.Resources {
			f(r.Resources[i].ErrorCode)
		}
	case *kmsg.DescribeLogDirsResponse:
		f(r.ErrorCode)
		for i := range r.Dirs {
			f(r.Dirs[i].ErrorCode)
		}
	case *kmsg.SASLAuthenticateResponse:
		f(r.ErrorCode)
	case *kmsg.CreatePartitionsResponse:
		for i := range r.Topics {
			f(r.Topics[i].ErrorCode)
		}
	case *kmsg.DeleteGroupsResponse:
		for i := range r.Groups {
			f(r.Groups[i].ErrorCode)
		}
	case *kmsg.ElectLeadersResponse:
		f(r.ErrorCode)
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for i := range r.Resources {
			f(r.Resources[i].ErrorCode)
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		f(r.ErrorCode)
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.ListPartitionReassignmentsResponse:
		f(r.ErrorCode)
	case *kmsg.OffsetDeleteResponse:
		f(r.ErrorCode)
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.DescribeClientQuotasResponse:
		f(r.ErrorCode)
	case *kmsg.AlterClientQuotasResponse:
		for i := range r.Entries {
			f(r.Entries[i].ErrorCode)
		}
	case *kmsg.DescribeUserSCRAMCredentialsResponse:
		f(r.ErrorCode)
		for i := range r.Results {
			f(r.Results[i].ErrorCode)
		}
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		for i := range r.Results {
			f(r.Results[i].ErrorCode)
		}
	case *kmsg.DescribeClusterResponse:
		f(r.ErrorCode)
	case *kmsg.DescribeProducersResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.DescribeTransactionsResponse:
		for i := range r.TransactionStates {
			f(r.TransactionStates[i].ErrorCode)
		}
	case *kmsg.ListTransactionsResponse:
		f(r.ErrorCode)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		f(r.ErrorCode)
	case *kmsg.ConsumerGroupDescribeResponse:
		for i := range r.Groups {
			f(r.Groups[i].ErrorCode)
		}
	case *kmsg.ListConfigResourcesResponse:
		f(r.ErrorCode)
	case *kmsg.DescribeTopicPartitionsResponse:
		for i := range r.Topics {
			f(r.Topics[i].ErrorCode)
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.ShareGroupHeartbeatResponse:
		f(r.ErrorCode)
	case *kmsg.ShareGroupDescribeResponse:
		for i := range r.Groups {
			f(r.Groups[i].ErrorCode)
		}
	case *kmsg.ShareAcknowledgeResponse:
		f(r.ErrorCode)
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.DescribeShareGroupOffsetsResponse:
		for i := range r.Groups {
			for j := range r.Groups[i].Topics {
				for k := range r.Groups[i].Topics[j].Partitions {
					f(r.Groups[i].Topics[j].Partitions[k].ErrorCode)
				}
			}
			f(r.Groups[i].ErrorCode)
		}
	case *kmsg.AlterShareGroupOffsetsResponse:
		f(r.ErrorCode)
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				f(r.Topics[i].Partitions[j].ErrorCode)
			}
		}
	case *kmsg.DeleteShareGroupOffsetsResponse:
		f(r.ErrorCode)
		for i := range r.Topics {
			f(r.Topics[i].ErrorCode)
		}
	}
}
