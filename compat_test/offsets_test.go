package compat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// commit is what one partition commits.
type commit struct {
	topic     topic
	partition int32
	offset    int64
	metadata  *string
}

func commitRequest(group string, commits ...commit) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID = group, -1, ""
	for _, o := range commits {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = o.partition, o.offset, -1, o.metadata
		i := slices.IndexFunc(req.Topics, func(rt kmsg.OffsetCommitRequestTopic) bool {
			return rt.Topic == o.topic.Name && rt.TopicID == o.topic.ID
		})
		if i < 0 {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.TopicID = o.topic.Name, o.topic.ID
			req.Topics, i = append(req.Topics, rt), len(req.Topics)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
	}
	return req
}

// commitOffsets commits without membership and returns the codes in the order of
// commits. Kafka's coordinator may have to load first.
func commitOffsets(s *server, c *conn, v int16, group string, commits ...commit) []int16 {
	c.t.Helper()
	ctx := within(c.t)
	for {
		res := ask[*kmsg.OffsetCommitResponse](c, v, commitRequest(group, commits...))
		var codes []int16
		for _, o := range commits {
			for _, rt := range res.Topics {
				if v < 10 && rt.Topic != o.topic.Name || v >= 10 && rt.TopicID != o.topic.ID {
					continue
				}
				for _, rp := range rt.Partitions {
					if rp.Partition == o.partition {
						codes = append(codes, rp.ErrorCode)
					}
				}
			}
		}
		if len(codes) != len(commits) {
			c.t.Fatalf("OffsetCommit v%d answers %+v, want each of %d partitions once", v, res.Topics, len(commits))
		}
		if !slices.ContainsFunc(codes, isLoading) || ctx.Err() != nil {
			return codes
		}
		s.makeCoordinator(c, group)
	}
}

// isLoading is what a client repeats a request for.
func isLoading(code int16) bool {
	return code == loadInProgress || code == coordinatorNotAvailable || code == notCoordinator
}

// makeCoordinator asks for the group's coordinator, which creates the offsets
// topic where it is missing.
func (s *server) makeCoordinator(c *conn, group string) {
	c.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = group
	ask[*kmsg.FindCoordinatorResponse](c, 3, req)
}

// fetchedOffset is one partition's answer in any version.
type fetchedOffset struct {
	offset   int64
	epoch    int32
	metadata string
	code     int16
}

// none is the answer for a partition without a committed offset.
var none = fetchedOffset{-1, -1, "", 0}

// fetchOffsets asks for partition 0 of topics in one group, at any version.
func fetchOffsets(s *server, c *conn, v int16, group string, topics ...topic) []fetchedOffset {
	c.t.Helper()
	ctx := within(c.t)
	for {
		groupCode, answers := fetchOffsetsOnce(c, v, group, topics)
		loading := isLoading(groupCode) || slices.ContainsFunc(answers, func(o fetchedOffset) bool { return isLoading(o.code) })
		if !loading || ctx.Err() != nil {
			wantCode(c.t, "OffsetFetch of group "+group, groupCode, noError)
			return answers
		}
		s.makeCoordinator(c, group)
	}
}

func fetchOffsetsOnce(c *conn, v int16, group string, topics []topic) (groupCode int16, answers []fetchedOffset) {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	req.Topics = []kmsg.OffsetFetchRequestTopic{}
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = group
	rg.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	for _, tp := range topics {
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: tp.Name, Partitions: []int32{0}})
		rgt := kmsg.NewOffsetFetchRequestGroupTopic()
		rgt.Topic, rgt.TopicID, rgt.Partitions = tp.Name, tp.ID, []int32{0}
		rg.Topics = append(rg.Topics, rgt)
	}
	req.Groups = append(req.Groups, rg)
	res := ask[*kmsg.OffsetFetchResponse](c, v, req)
	if v < 8 {
		for _, rt := range res.Topics {
			for _, rp := range rt.Partitions {
				answers = append(answers, fetchedOffset{rp.Offset, rp.LeaderEpoch, text(c, rp.Metadata), rp.ErrorCode})
			}
		}
		groupCode = res.ErrorCode
	} else {
		want(c.t, "groups", len(res.Groups), 1)
		want(c.t, "group", res.Groups[0].Group, group)
		for _, rt := range res.Groups[0].Topics {
			for _, rp := range rt.Partitions {
				answers = append(answers, fetchedOffset{rp.Offset, rp.LeaderEpoch, text(c, rp.Metadata), rp.ErrorCode})
			}
		}
		groupCode = res.Groups[0].ErrorCode
	}
	if groupCode == 0 && len(answers) != len(topics) {
		c.t.Fatalf("OffsetFetch v%d answers %+v, want %d partitions", v, res, len(topics))
	}
	return groupCode, answers
}

// text is a metadata string, which may not be null.
func text(c *conn, s *string) string {
	c.t.Helper()
	if s == nil {
		c.t.Fatal("metadata is null")
	}
	return *s
}

func TestOffsets(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "OFFS-01 fetch all offsets of many groups", versions(8, 9, 10), func(t *testing.T, v int16) {
		a, b := s.createTopic(t, "offs-01a", 2), s.createTopic(t, "offs-01b", 1)
		c := s.dial(t)
		g1, g2, ghost := fresh("g1"), fresh("g2"), fresh("ghost")
		for _, g := range []string{g1, g2} {
			for _, got := range commitOffsets(s, c, 8, g, commit{a, 0, 3, ptr("m")}, commit{a, 1, 4, nil}, commit{b, 0, 5, nil}) {
				wantCode(t, "commit", got, noError)
			}
		}
		req := kmsg.NewPtrOffsetFetchRequest()
		for _, name := range []string{g1, g2, ghost} {
			rg := kmsg.NewOffsetFetchRequestGroup()
			rg.Group = name
			if name == g2 {
				rgt := kmsg.NewOffsetFetchRequestGroupTopic()
				rgt.Topic, rgt.TopicID, rgt.Partitions = b.Name, b.ID, []int32{0}
				rg.Topics = append(rg.Topics, rgt)
			}
			req.Groups = append(req.Groups, rg)
		}
		ctx := within(t)
		res := ask[*kmsg.OffsetFetchResponse](c, v, req)
		for slices.ContainsFunc(res.Groups, func(g kmsg.OffsetFetchResponseGroup) bool { return isLoading(g.ErrorCode) }) && ctx.Err() == nil {
			s.makeCoordinator(c, ghost)
			res = ask[*kmsg.OffsetFetchResponse](c, v, req)
		}
		got := map[string]map[string]int64{}
		for _, g := range res.Groups {
			wantCode(t, g.Group, g.ErrorCode, noError)
			got[g.Group] = map[string]int64{}
			for _, rt := range g.Topics {
				name := rt.Topic
				if v >= 10 {
					name = map[[16]byte]string{a.ID: a.Name, b.ID: b.Name}[rt.TopicID]
				}
				for _, rp := range rt.Partitions {
					wantCode(t, "partition", rp.ErrorCode, noError)
					got[g.Group][name+string(rune('0'+rp.Partition))] = rp.Offset
				}
			}
		}
		if len(res.Groups) != 3 || res.Groups[0].Group != g1 || res.Groups[1].Group != g2 || res.Groups[2].Group != ghost {
			t.Errorf("groups are answered as %+v, want in the order asked", res.Groups)
		}
		if m := got[g1]; len(m) != 3 || m[a.Name+"0"] != 3 || m[a.Name+"1"] != 4 || m[b.Name+"0"] != 5 {
			t.Errorf("g1: %v", m)
		}
		if m := got[g2]; len(m) != 1 || m[b.Name+"0"] != 5 {
			t.Errorf("g2: %v", m)
		}
		if m := got[ghost]; len(m) != 0 {
			t.Errorf("ghost: %v", m)
		}
	})

	at(t, "OFFS-02 no committed offset", versions(1, 7, 8, 10), func(t *testing.T, v int16) {
		tp, other := s.createTopic(t, "offs-02", 1), s.createTopic(t, "offs-02", 1)
		c := s.dial(t)
		group := fresh("offs-02")
		wantCode(t, "commit", commitOffsets(s, c, 8, group, commit{other, 0, 3, nil})[0], noError)
		want(t, "existing group", fetchOffsets(s, c, v, group, tp)[0], none)
		want(t, "ghost group", fetchOffsets(s, c, v, fresh("ghost"), tp)[0], none)
	})

	at(t, "OFFS-04 commit without membership", versions(2, 8, 10), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "offs-04", 1)
		c := s.dial(t)
		group := fresh("offs-04")
		wantCode(t, "commit", commitOffsets(s, c, v, group, commit{tp, 0, 1234567890123, ptr("what I did")})[0], noError)
		wanted := fetchedOffset{1234567890123, -1, "what I did", 0}
		for _, fv := range versions(1, 7, 8, 10) {
			want(t, "fetched", fetchOffsets(s, c, fv, group, tp)[0], wanted)
		}
		wantCode(t, "commit again", commitOffsets(s, c, v, group, commit{tp, 0, 5, nil})[0], noError)
		want(t, "fetched", fetchOffsets(s, c, 8, group, tp)[0], fetchedOffset{5, -1, "", 0})
		if s.advertises(c, 16) {
			res := ask[*kmsg.ListGroupsResponse](c, 4, kmsg.NewPtrListGroupsRequest())
			i := slices.IndexFunc(res.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == group })
			if i < 0 || res.Groups[i].ProtocolType != "" || res.Groups[i].GroupState != "Empty" {
				t.Errorf("ListGroups says %+v, want %s Empty without a protocol type", res.Groups, group)
			}
		}
	})

	t.Run("a generation of an unknown group is refused", func(t *testing.T) {
		tp := s.createTopic(t, "generation", 1)
		c := s.dial(t)
		for v, wanted := range map[int16]int16{2: illegalGeneration, 8: illegalGeneration, 9: groupIDNotFound, 10: groupIDNotFound} {
			req := commitRequest(fresh("ghost"), commit{tp, 0, 1, nil})
			req.Generation = 3
			s.makeCoordinator(c, req.Group)
			res := ask[*kmsg.OffsetCommitResponse](c, v, req)
			for ctx := within(t); isLoading(res.Topics[0].Partitions[0].ErrorCode) && ctx.Err() == nil; {
				res = ask[*kmsg.OffsetCommitResponse](c, v, req)
			}
			wantCode(t, "commit", res.Topics[0].Partitions[0].ErrorCode, wanted)
		}
	})

	at(t, "OFFS-09 metadata over 4096 characters", versions(2, 10), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "offs-09", 3)
		c := s.dial(t)
		group := fresh("offs-09")
		codes := commitOffsets(s, c, v, group,
			commit{tp, 1, 9, ptr(strings.Repeat("x", 5000))},
			commit{tp, 0, 8, ptr(strings.Repeat("x", 4096))},
			commit{tp, 2, 7, ptr(strings.Repeat("ü", 4096))})
		wantCode(t, "5000 characters", codes[0], offsetMetadataTooLarge)
		wantCode(t, "4096 characters", codes[1], noError)
		wantCode(t, "4096 characters of two bytes", codes[2], noError)
		want(t, "stored", fetchOffsets(s, c, 8, group, tp)[0].offset, 8)
	})

	at(t, "OFFS-10 commit for a missing topic or partition", versions(2, 8, 9), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "offs-10", 1)
		c := s.dial(t)
		group := fresh("offs-10")
		ghost := topic{Name: fresh("ghost")}
		codes := commitOffsets(s, c, v, group, commit{tp, 99, 1, nil}, commit{tp, 0, 2, nil}, commit{ghost, 0, 3, nil})
		wantCode(t, "partition 99", codes[0], unknownTopicOrPart)
		wantCode(t, "partition 0", codes[1], noError)
		wantCode(t, "missing topic", codes[2], unknownTopicOrPart)
		if got := fetchOffsets(s, c, 7, group, tp, ghost); got[0].offset != 2 || got[1] != none {
			t.Errorf("stored %+v", got)
		}
	})

	t.Run("OFFS-11 OffsetCommit by topic id", func(t *testing.T) {
		tp := s.createTopic(t, "offs-11", 1)
		c := s.dial(t)
		group := fresh("offs-11")
		zero, unknown := topic{Name: tp.Name}, topic{Name: tp.Name, ID: [16]byte{4, 2}}
		codes := commitOffsets(s, c, 10, group, commit{zero, 0, 7, nil}, commit{unknown, 0, 8, nil})
		wantCode(t, "zero id", codes[0], unknownTopicID)
		wantCode(t, "unknown id", codes[1], unknownTopicID)
		want(t, "stored", fetchOffsets(s, c, 8, group, tp)[0], none)
		wantCode(t, "its id", commitOffsets(s, c, 10, group, commit{tp, 0, 9, nil})[0], noError)
		want(t, "stored", fetchOffsets(s, c, 10, group, tp)[0].offset, 9)
		_, got := fetchOffsetsOnce(c, 10, group, []topic{unknown})
		wantCode(t, "fetch of an unknown id", got[0].code, unknownTopicID)
	})

	at(t, "OFFS-12 deleting a topic deletes its committed offsets", versions(2, 10), func(t *testing.T, v int16) {
		tp, kept := s.createTopic(t, "offs-12", 1), s.createTopic(t, "offs-12", 1)
		c := s.dial(t)
		group := fresh("offs-12")
		for _, got := range commitOffsets(s, c, v, group, commit{tp, 0, 7, nil}, commit{kept, 0, 6, nil}) {
			wantCode(t, "commit", got, noError)
		}
		deleteTopic(t, c, tp)
		again := s.createNamedTopic(t, tp.Name, 1)
		ctx := within(t)
		for { // Kafka does it a moment later
			got := fetchOffsets(s, c, 8, group, again)[0]
			if got == none {
				break
			}
			if !s.External() || ctx.Err() != nil {
				t.Fatalf("fetched %+v, want none", got)
			}
		}
		want(t, "another topic's", fetchOffsets(s, c, 8, group, kept)[0].offset, 6)
		if !s.External() {
			s.Restart(t, killed)
			c = s.dial(t)
			want(t, "after a restart", fetchOffsets(s, c, 8, group, again)[0], none)
			want(t, "another topic's after a restart", fetchOffsets(s, c, 8, group, kept)[0].offset, 6)
		}
	})
}

// advertises says whether ApiVersions lists a key.
func (s *server) advertises(c *conn, key int16) bool {
	c.t.Helper()
	res := ask[*kmsg.ApiVersionsResponse](c, 4, apiVersions("compat", "1"))
	return slices.ContainsFunc(res.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key })
}

func TestOffsetsOverRestarts(t *testing.T) {
	t.Parallel()
	for _, how := range []string{stopped, killed} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			tp := s.createTopic(t, "offsets", 1)
			c := s.dial(t)
			for i := range int64(20) {
				wantCode(t, "commit", commitOffsets(s, c, 8, "g", commit{tp, 0, i, ptr("m")})[0], noError)
			}
			for range 2 {
				s.Restart(t, how)
				want(t, "after a restart", fetchOffsets(s, s.dial(t), 8, "g", tp)[0], fetchedOffset{19, -1, "m", 0})
			}
		})
	}
}

func TestFindCoordinator(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "GRP-17 FindCoordinator shapes", versions(0, 1, 3, 4, 6), func(t *testing.T, v int16) {
		c := s.dial(t)
		broker := ask[*kmsg.MetadataResponse](c, 9, metadataRequest()).Brokers[0]
		check := func(t *testing.T, what string, node int32, host string, port int32) {
			t.Helper()
			if node != broker.NodeID || host != broker.Host || port != broker.Port {
				t.Errorf("%s: got node %d at %s:%d, want %d at %s:%d", what, node, host, port, broker.NodeID, broker.Host, broker.Port)
			}
		}
		find := func(kind int8, keys ...string) *kmsg.FindCoordinatorResponse {
			t.Helper()
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = keys[0], kind, keys
			ctx := within(t)
			for {
				res := ask[*kmsg.FindCoordinatorResponse](c, v, req)
				if !isLoading(res.ErrorCode) && !slices.ContainsFunc(res.Coordinators, func(r kmsg.FindCoordinatorResponseCoordinator) bool { return isLoading(r.ErrorCode) }) {
					return res
				}
				if ctx.Err() != nil { // Kafka creates its topics first
					t.Fatalf("coordinator of %v: %+v", keys, res)
				}
			}
		}
		keys := []string{fresh("g1"), fresh("g2")}
		if v < 4 {
			keys = keys[:1]
		}
		kinds := []int8{0, 1}
		if v == 0 {
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			res := find(kind, keys...)
			if v < 4 {
				wantCode(t, "coordinator", res.ErrorCode, noError)
				check(t, keys[0], res.NodeID, res.Host, res.Port)
				continue
			}
			want(t, "coordinators", len(res.Coordinators), len(keys))
			for i, r := range res.Coordinators {
				want(t, "key", r.Key, keys[i])
				wantCode(t, r.Key, r.ErrorCode, noError)
				check(t, r.Key, r.NodeID, r.Host, r.Port)
			}
		}
		if v == 0 {
			return
		}
		res := find(9, keys...)
		if v < 4 {
			wantCode(t, "type 9", res.ErrorCode, invalidRequest)
			want(t, "node id", res.NodeID, -1)
			return
		}
		for _, r := range res.Coordinators {
			wantCode(t, "type 9", r.ErrorCode, invalidRequest)
			want(t, "node id", r.NodeID, -1)
		}
	})
}
