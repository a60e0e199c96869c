package wire

import (
	"iter"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// DescribeLogDirs, key 35, versions 1 to 5.
//
//	v2 flexible
//	v3 an error of the whole answer
//	v4 size of the volume and the room on it
//	v5 whether the directory takes new partitions
//
// There is one directory. A partition that is offline is left out, as Kafka leaves out what it could not load. Kafka:
// KafkaApis.handleDescribeLogDirsRequest, ReplicaManager.describeLogDirs.

// describeLogDirs answers a DescribeLogDirs request.
func (s *Server) describeLogDirs(r *request, req *kmsg.DescribeLogDirsRequest) (*kmsg.DescribeLogDirsResponse, error) {
	resp := &kmsg.DescribeLogDirsResponse{Version: req.Version, Dirs: []kmsg.DescribeLogDirsResponseDir{}}
	if !s.authorizeCluster(r, opDescribe) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp, nil
	}
	// Until every partition of the start is recovered, one that was not used yet may have data that is not known of. That
	// is waited for first, since nobody may wait for it with a turn.
	recovered := s.store.Stats().Recovered
	if !recovered {
		if err := recoverFirst(s, r, req, s.partitionsOfDirs(req)); err != nil {
			return nil, err
		}
	}
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = s.store.Dir()
	if abs, err := filepath.Abs(dir.Dir); err == nil {
		dir.Dir = abs
	}
	dir.Topics = []kmsg.DescribeLogDirsResponseDirTopic{}
	free, total, err := s.store.Space()
	if err != nil {
		dir.ErrorCode, dir.TotalBytes, dir.UsableBytes = kerr.KafkaStorageError.Code, -1, -1
		resp.Dirs = append(resp.Dirs, dir)
		return resp, nil
	}
	dir.TotalBytes, dir.UsableBytes = total, free
	dir.IsCordoned = slices.Contains(s.config.List("cordoned.log.dirs"), "*") || slices.Contains(s.config.List("cordoned.log.dirs"), s.store.Dir())
	for t, partitions := range s.wantedDirs(req) {
		out := kmsg.NewDescribeLogDirsResponseDirTopic()
		out.Topic = t.Name()
		for i := range partitions {
			log, ok := t.Partition(i)
			if !ok {
				continue
			}
			if !recovered {
				if _, err := log.Offsets(); err != nil {
					continue
				}
			}
			if log.Status() == storage.StatusOffline {
				continue
			}
			if err := r.answerGrows(24); err != nil {
				return nil, err
			}
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size = i, log.Size()
			out.Partitions = append(out.Partitions, p)
		}
		if len(out.Partitions) == 0 {
			continue
		}
		dir.Topics = append(dir.Topics, out)
		if err := r.answerGrows(8 + len(out.Topic)); err != nil {
			return nil, err
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}

// wantedDirs yields the topics that a request is about, with their partitions.
func (s *Server) wantedDirs(req *kmsg.DescribeLogDirsRequest) iter.Seq2[*storage.Topic, iter.Seq[int32]] {
	return func(yield func(*storage.Topic, iter.Seq[int32]) bool) {
		if req.Topics == nil {
			for _, t := range s.store.Topics() {
				all := func(yield func(int32) bool) {
					for i := range t.Partitions() {
						if !yield(i) {
							return
						}
					}
				}
				if !yield(t, all) {
					return
				}
			}
		}
		for name, partitions := range wantedPartitions(req.Topics) {
			if t, ok := s.store.Topic(name); ok && !yield(t, slices.Values(partitions)) {
				return
			}
		}
	}
}

// partitionsOfDirs yields the partitions that the request is about.
func (s *Server) partitionsOfDirs(req *kmsg.DescribeLogDirsRequest) iter.Seq2[*storage.Topic, int32] {
	return func(yield func(*storage.Topic, int32) bool) {
		for t, partitions := range s.wantedDirs(req) {
			for i := range partitions {
				if !yield(t, i) {
					return
				}
			}
		}
	}
}

// wantedPartitions yields each topic of a request once, in the order of the request, with its partitions in order.
func wantedPartitions(topics []kmsg.DescribeLogDirsRequestTopic) func(yield func(string, []int32) bool) {
	return func(yield func(string, []int32) bool) {
		var names []string
		wanted := make(map[string][]int32, len(topics))
		for i := range topics {
			t := &topics[i]
			if _, ok := wanted[t.Topic]; !ok {
				names = append(names, t.Topic)
			}
			wanted[t.Topic] = append(wanted[t.Topic], t.Partitions...)
		}
		for _, name := range names {
			partitions := wanted[name]
			slices.Sort(partitions)
			if !yield(name, slices.Compact(partitions)) {
				return
			}
		}
	}
}
