package storage

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/vfs"
)

var aCredential = auth.ScramCredential{Salt: []byte("salt"), StoredKey: []byte("stored key"), ServerKey: []byte("server key"), Iterations: 8192}

// alterScram sets the credentials of users, or takes them away where c is nil.
func alterScram(s *Store, c *auth.ScramCredential, users ...ScramUser) error {
	return s.AlterScramCredentials(func(ScramCredentials) (changes []ScramChange, err error) {
		for _, u := range users {
			changes = append(changes, ScramChange{u, c})
		}
		return changes, nil
	})
}

func mustAlterScram(t *testing.T, s *Store, c *auth.ScramCredential, users ...ScramUser) {
	t.Helper()
	if err := alterScram(s, c, users...); err != nil {
		t.Fatal(err)
	}
}

func wantScram(t *testing.T, s *Store, want ScramCredentials) {
	t.Helper()
	if got := s.ScramCredentials(); len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("credentials of %v, want those of %v", got.Sorted(), want.Sorted())
	}
}

var (
	ann256 = ScramUser{"ann", auth.ScramSHA256}
	ann512 = ScramUser{"ann", auth.ScramSHA512}
	bob256 = ScramUser{"bob", auth.ScramSHA256}
)

func TestScramCredentialsOutliveAKill(t *testing.T) {
	live := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, live)
	wantScram(t, s, nil)
	other := aCredential
	other.Iterations = 4096
	mustAlterScram(t, s, &aCredential, ann256, ann512, bob256)
	mustAlterScram(t, s, &other, ann256)
	mustAlterScram(t, s, nil, bob256)
	want := ScramCredentials{ann256: other, ann512: aCredential}
	wantScram(t, s, want)
	killed := live.CrashClone(1, 0) // with nothing that was not synced
	closeStore(t, s)

	s = openStore(t, killed)
	wantScram(t, s, want)
	compactMetadata(t, s)
	closeStore(t, s)
	s = openStore(t, killed)
	wantScram(t, s, want)
	closeStore(t, s)
}

func TestScramCredentialsThatAreNotDurableAreNotThere(t *testing.T) {
	var fail atomic.Bool
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(o vfs.Op) error {
		if fail.Load() && (o.Kind == vfs.OpSync || o.Kind == vfs.OpWriteAt) {
			return errors.New("disk is gone")
		}
		return nil
	})
	s := openStore(t, fsys)
	defer s.Close()
	mustAlterScram(t, s, &aCredential, ann256)
	fail.Store(true)
	if err := alterScram(s, &aCredential, bob256); !errors.Is(err, ErrStorage) {
		t.Errorf("set: %v, want %v", err, ErrStorage)
	}
	if err := alterScram(s, nil, ann256); !errors.Is(err, ErrStorage) {
		t.Errorf("take away: %v, want %v", err, ErrStorage)
	}
	wantScram(t, s, ScramCredentials{ann256: aCredential})
}

// TestScramDecisionsSeeEachOther lets many take away the same credential at once: one of them finds it.
func TestScramDecisionsSeeEachOther(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	defer closeStore(t, s)
	mustAlterScram(t, s, &aCredential, ann256)
	var found atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			err := s.AlterScramCredentials(func(now ScramCredentials) ([]ScramChange, error) {
				if _, ok := now[ann256]; !ok {
					return nil, nil
				}
				found.Add(1)
				return []ScramChange{{User: ann256}}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if found.Load() != 1 {
		t.Errorf("%d found the credential, want 1", found.Load())
	}
	wantScram(t, s, nil)
	refused := errors.New("refused")
	if err := s.AlterScramCredentials(func(ScramCredentials) ([]ScramChange, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("got %v, want what was decided", err)
	}
}

// TestSecretsAreNotDescribed looks for the parts of a credential in what is said of its record.
func TestSecretsAreNotDescribed(t *testing.T) {
	r := scramRecord(ann256, &aCredential)
	text, err := DescribeMetadataRecord(r.key, r.value)
	if err != nil {
		t.Fatal(err)
	}
	if want := `SCRAM-SHA-256 credential of user "ann", 8192 iterations`; text != want {
		t.Errorf("described as %q, want %q", text, want)
	}
}
