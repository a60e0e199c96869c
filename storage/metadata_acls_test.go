package storage

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/vfs"
)

var (
	anACL      = auth.Binding{Resource: auth.Topic, Name: "orders", Pattern: auth.Literal, Principal: "User:ann", Host: "*", Operation: auth.Read, Permission: auth.Allow}
	aDenial    = auth.Binding{Resource: auth.Group, Name: "g", Pattern: auth.Prefixed, Principal: "User:*", Host: "10.0.0.0/8", Operation: auth.AllOperations, Permission: auth.Deny}
	anotherACL = auth.Binding{Resource: auth.Cluster, Name: auth.ClusterName, Pattern: auth.Literal, Principal: "User:bob", Host: "10.0.0.1", Operation: auth.Create, Permission: auth.Allow}
	everyACL   = auth.Filter{Resource: auth.AnyResource, Pattern: auth.AnyPattern, Operation: auth.AnyOperation, Permission: auth.AnyPermission}
)

func wantACLs(t *testing.T, s *Store, want ...auth.Binding) {
	t.Helper()
	slices.SortFunc(want, func(a, b auth.Binding) int { return a.Compare(&b) })
	if got := s.ACLs().Choose(&everyACL); !slices.Equal(got, want) {
		t.Errorf("ACLs %v, want %v", got, want)
	}
}

func TestACLsOutliveAKill(t *testing.T) {
	live := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, live)
	wantACLs(t, s)
	if err := s.CreateACLs([]auth.Binding{anACL, aDenial, anACL}); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateACLs([]auth.Binding{aDenial, anotherACL}); err != nil {
		t.Fatal(err)
	}
	deleted, err := s.DeleteACLs([]auth.Filter{
		{Resource: auth.Group, Pattern: auth.AnyPattern, Operation: auth.AnyOperation, Permission: auth.AnyPermission},
		{Resource: auth.AnyResource, Pattern: auth.AnyPattern, Operation: auth.AnyOperation, Permission: auth.Deny},
		{Resource: auth.User, Pattern: auth.AnyPattern, Operation: auth.AnyOperation, Permission: auth.AnyPermission},
	})
	if err != nil || len(deleted) != 3 || !slices.Equal(deleted[0], []auth.Binding{aDenial}) || !slices.Equal(deleted[1], []auth.Binding{aDenial}) || len(deleted[2]) != 0 {
		t.Fatalf("deleted %v, %v, want the denial by two filters", deleted, err)
	}
	wantACLs(t, s, anACL, anotherACL)
	killed := live.CrashClone(1, 0) // with nothing that was not synced
	closeStore(t, s)

	s = openStore(t, killed)
	wantACLs(t, s, anACL, anotherACL)
	compactMetadata(t, s)
	closeStore(t, s)
	s = openStore(t, killed)
	wantACLs(t, s, anACL, anotherACL)
	closeStore(t, s)
}

func TestACLsThatChangeNothingAreNotWritten(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	defer closeStore(t, s)
	if err := s.CreateACLs([]auth.Binding{anACL}); err != nil {
		t.Fatal(err)
	}
	size, before := s.metadata.log.Size(), s.ACLs()
	if err := s.CreateACLs([]auth.Binding{anACL}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteACLs([]auth.Filter{{Resource: auth.User, Pattern: auth.AnyPattern, Operation: auth.AnyOperation, Permission: auth.AnyPermission}}); err != nil {
		t.Fatal(err)
	}
	if got := s.metadata.log.Size(); got != size || s.ACLs() != before {
		t.Errorf("the metadata log grew from %d to %d bytes, want nothing written", size, got)
	}
}

func TestACLsThatAreNotDurableAreNotThere(t *testing.T) {
	var fail atomic.Bool
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(o vfs.Op) error {
		if fail.Load() && (o.Kind == vfs.OpSync || o.Kind == vfs.OpWriteAt) {
			return errors.New("disk is gone")
		}
		return nil
	})
	s := openStore(t, fsys)
	defer s.Close()
	if err := s.CreateACLs([]auth.Binding{anACL}); err != nil {
		t.Fatal(err)
	}
	fail.Store(true)
	if err := s.CreateACLs([]auth.Binding{aDenial}); !errors.Is(err, ErrStorage) {
		t.Errorf("create: %v, want %v", err, ErrStorage)
	}
	if _, err := s.DeleteACLs([]auth.Filter{everyACL}); !errors.Is(err, ErrStorage) {
		t.Errorf("delete: %v, want %v", err, ErrStorage)
	}
	wantACLs(t, s, anACL)
}

func TestTooManyACLsAtOnceAreNoneAtAll(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	defer closeStore(t, s)
	many := make([]auth.Binding, MaxACLChanges+1)
	for i := range many {
		many[i] = anACL
		many[i].Name = fmt.Sprintf("topic-%d", i)
	}
	if err := s.CreateACLs(many); !errors.Is(err, ErrTooManyACLs) {
		t.Errorf("create %d: %v, want %v", len(many), err, ErrTooManyACLs)
	}
	wantACLs(t, s)
	if err := s.CreateACLs(append(many[:MaxACLChanges:MaxACLChanges], many[0])); err != nil { // one of them twice
		t.Fatal(err)
	}
	if err := s.CreateACLs(many); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteACLs([]auth.Filter{everyACL}); !errors.Is(err, ErrTooManyACLs) {
		t.Errorf("delete %d: %v, want %v", len(many), err, ErrTooManyACLs)
	}
	if got := s.ACLs().Len(); got != len(many) {
		t.Errorf("%d ACLs, want %d", got, len(many))
	}
}
