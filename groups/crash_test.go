package groups

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// crashes are what power losses before every sync could have left, each with what a
// test had been promised until then.
type crashes[P any] struct {
	mem  *vfs.Mem
	rand *rand.Rand

	mu       sync.Mutex
	promised P
	after    []crash[P]
}

type crash[P any] struct {
	fs       *vfs.Mem
	what     string
	promised P
}

// newCrashes returns a file system that a crash is taken of before every sync.
func newCrashes[P any](seed uint64, promised P) (*crashes[P], vfs.FS) {
	c := &crashes[P]{mem: vfs.NewMem(vfs.MemOptions{Crashable: true}), rand: rand.New(rand.NewPCG(seed, 1)), promised: promised}
	return c, vfs.Inject(c.mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir {
			c.take(fmt.Sprint("before ", op.Kind, " of ", op.Name))
		}
		return nil
	})
}

// take takes one crash that lost all that was not synced, and one that kept a share.
func (c *crashes[P]) take(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, keep := range []float64{0, c.rand.Float64()} {
		c.after = append(c.after, crash[P]{c.mem.CrashClone(c.rand.Uint64(), keep), fmt.Sprintf("%s, %.2f kept", what, keep), c.promised})
	}
}

// promise notes an answer, and takes a crash at that instant.
func (c *crashes[P]) promise(p P) {
	c.mu.Lock()
	c.promised = p
	c.mu.Unlock()
	c.take("after an answer")
}

// A commit that was answered is returned after a crash at that instant, and at every
// later one.
func TestAnsweredCommitSurvivesACrashAtEverySync(t *testing.T) {
	promised := [2]int64{-1, -1}
	crashes, fsys := newCrashes(7, promised)
	s, c := open(t, fsys)
	orders := topic(t, s, "orders")
	for i := range int64(12) {
		p := int32(i % 2)
		commit(t, c, "g", orders, p, i)
		promised[p] = i
		crashes.promise(promised)
	}
	if len(crashes.after) < 60 {
		t.Fatalf("took %d crashes, want more", len(crashes.after))
	}
	for _, after := range crashes.after {
		_, c := open(t, after.fs)
		got, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: "g", MemberEpoch: -1, Queries: []OffsetQuery{{Topic: "orders"}, {Topic: "orders", Partition: 1}}})
		if err != nil {
			t.Fatalf("%s: %v", after.what, err)
		}
		for p, f := range got {
			if !f.Found {
				f.Offset.Offset = -1
			}
			// What was on its way, two further, may be there too.
			if want := after.promised[p]; f.Offset.Offset < want || f.Offset.Offset > max(want, int64(p-2))+2 {
				t.Errorf("%s: partition %d: got %d, want %d or the next", after.what, p, f.Offset.Offset, want)
			}
		}
	}
}

// What removes offsets is as durable as what sets them.
func TestAnsweredDeletionSurvivesACrashAtEverySync(t *testing.T) {
	crashes, fsys := newCrashes(9, false)
	s, c := open(t, fsys)
	commit(t, c, "g", topic(t, s, "orders"), 0, 5)
	if err := c.DeleteGroup(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	crashes.promise(true)
	for _, after := range crashes.after {
		_, c := open(t, after.fs)
		listed, err := c.List(nil, nil)
		if err != nil || after.promised && len(listed) != 0 {
			t.Errorf("%s: got %v, error %v; want no group", after.what, listed, err)
		}
	}
}

// A member whose sync was answered goes on in its generation, with its assignment,
// after a crash at that instant.
func TestSyncedMemberSurvivesACrashAtEverySync(t *testing.T) {
	type promise struct {
		member     string
		generation int32
		assignment []byte
	}
	crashes, fsys := newCrashes(11, promise{})
	_, c := openAt(t, fsys, now, Config{})
	p := promise{}
	for i := range 3 {
		joined, err := c.JoinGroup(t.Context(), &JoinRequest{Group: "g", MemberID: p.member, ClientID: "c", ClientHost: "/127.0.0.1",
			SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute, ProtocolType: "consumer",
			Protocols: []Protocol{{Name: "range", Metadata: []byte{0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}}}})
		if err != nil {
			t.Fatal(err)
		}
		assignment := []byte(fmt.Sprint("assignment ", i))
		synced, err := c.SyncGroup(t.Context(), &SyncRequest{Group: "g", Generation: joined.Generation, MemberID: joined.MemberID,
			Assignments: []Assignment{{MemberID: joined.MemberID, Bytes: assignment}}})
		if err != nil || !bytes.Equal(synced.Assignment, assignment) {
			t.Fatalf("sync: got %+v, error %v", synced, err)
		}
		p = promise{joined.MemberID, joined.Generation, assignment}
		crashes.promise(p)
	}
	for _, after := range crashes.after {
		if after.promised.member == "" {
			continue
		}
		_, c := open(t, after.fs)
		d, err := c.DescribeGroup("g")
		if err != nil || d.State != "Stable" || len(d.Members) != 1 || d.Members[0].MemberID != after.promised.member {
			t.Fatalf("%s: got %+v, error %v; want member %s", after.what, d, err, after.promised.member)
		}
		err = c.Heartbeat(t.Context(), &HeartbeatRequest{Group: "g", Generation: after.promised.generation, MemberID: after.promised.member})
		if err == nil && bytes.Equal(d.Members[0].Assignment, after.promised.assignment) {
			continue
		}
		// Or what was on its way came through: the next generation.
		err = c.Heartbeat(t.Context(), &HeartbeatRequest{Group: "g", Generation: after.promised.generation + 1, MemberID: after.promised.member})
		if err != nil {
			t.Errorf("%s: generation %d, assignment %q: got %q, error %v", after.what, after.promised.generation, after.promised.assignment, d.Members[0].Assignment, err)
		}
	}
}
