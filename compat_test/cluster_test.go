package compat_test

import (
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "ADM-17 DescribeCluster", versions(0, 1, 2), func(t *testing.T, v int16) {
		c := s.dial(t)
		m := ask[*kmsg.MetadataResponse](c, 9, metadataRequest())
		d := describeCluster(c, v)
		wantCode(t, "describe", d.ErrorCode, noError)
		want(t, "cluster id", d.ClusterID, *m.ClusterID)
		want(t, "controller id", d.ControllerID, m.ControllerID)
		want(t, "brokers", len(d.Brokers), 1)
		b := d.Brokers[0]
		if b.NodeID != m.Brokers[0].NodeID || b.Host != m.Brokers[0].Host || b.Port != m.Brokers[0].Port || b.Rack != nil || b.IsFenced {
			t.Errorf("broker %+v, Metadata says %+v", b, m.Brokers[0])
		}
		want(t, "operations", d.ClusterAuthorizedOperations, notAsked)
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType, req.IncludeClusterAuthorizedOperations = 1, true
		want(t, "operations when asked", ask[*kmsg.DescribeClusterResponse](c, v, req).ClusterAuthorizedOperations, 0x1fa0)
		if v == 0 {
			return
		}
		want(t, "endpoint type", d.EndpointType, 1)
		for kind, wanted := range map[int8]int16{2: mismatchedEndpoint, 9: unsupportedEndpoint} {
			req.EndpointType = kind
			got := ask[*kmsg.DescribeClusterResponse](c, v, req)
			wantCode(t, "another endpoint type", got.ErrorCode, wanted)
			want(t, "brokers", len(got.Brokers), 0)
		}
	})

	at(t, "ADM-18 DescribeLogDirs", versions(1, 3, 4, 5), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "adm-18", 2)
		c := s.dial(t)
		describe := func(topics ...kmsg.DescribeLogDirsRequestTopic) kmsg.DescribeLogDirsResponseDir {
			t.Helper()
			req := kmsg.NewPtrDescribeLogDirsRequest()
			req.Topics = topics
			res := ask[*kmsg.DescribeLogDirsResponse](c, v, req)
			wantCode(t, "describe", res.ErrorCode, noError)
			want(t, "directories", len(res.Dirs), 1)
			wantCode(t, "directory", res.Dirs[0].ErrorCode, noError)
			return res.Dirs[0]
		}
		size := func(d kmsg.DescribeLogDirsResponseDir, p int32) int64 {
			t.Helper()
			for _, rt := range d.Topics {
				for _, rp := range rt.Partitions {
					if rt.Topic == tp.Name && rp.Partition == p {
						if rp.OffsetLag != 0 || rp.IsFuture {
							t.Errorf("partition %d: %+v", p, rp)
						}
						return rp.Size
					}
				}
			}
			t.Fatalf("%s-%d is not listed", tp.Name, p)
			return 0
		}
		mine := kmsg.DescribeLogDirsRequestTopic{Topic: tp.Name, Partitions: []int32{0, 1}}
		before := size(describe(mine), 0)
		b := one("some value").bytes(t)
		wantCode(t, "produce", produce(c, 9, tp, 0, b).ErrorCode, noError)
		d := describe() // all
		if got := size(d, 0); got != before+int64(len(b)) {
			t.Errorf("size is %d after %d and a batch of %d bytes", got, before, len(b))
		}
		want(t, "size of the empty partition", size(d, 1), 0)
		if !filepath.IsAbs(d.Dir) {
			t.Errorf("directory is %q, want an absolute path", d.Dir)
		}
		d = describe(mine, kmsg.DescribeLogDirsRequestTopic{Topic: fresh("ghost"), Partitions: []int32{0}})
		want(t, "topics", len(d.Topics), 1)
		if v >= 4 && (d.TotalBytes <= 0 || d.UsableBytes <= 0 || d.UsableBytes > d.TotalBytes) {
			t.Errorf("total %d, usable %d", d.TotalBytes, d.UsableBytes)
		}
	})
}
