package gateway

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/kaen-log/gateway/storage/vfs"
)

// TestCrashTestNotices breaks what the promises rest on, one thing at a time. Each time the very check of
// TestCrashLosesNothing has to fail.
func TestCrashTestNotices(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup crashSetup
	}{
		{"sync does nothing", crashSetup{wrap: skipping(func(op vfs.Op) bool { return op.Kind == vfs.OpSync })}},
		{"sync of records does nothing", crashSetup{wrap: skipping(func(op vfs.Op) bool {
			return op.Kind == vfs.OpSync && ofRecords(op.Name)
		})}},
		{"a duplicate is answered before its original is durable", crashSetup{options: func(o *Options) {
			o.answerDuplicatesEarly = true
		}}},
		{"a roll does not sync the directory", crashSetup{
			wrap: noting(vfs.OpSyncDir, true, rolled, func(string) bool { return true }),
		}},
		{"what was appended is shown before it is synced", crashSetup{options: func(o *Options) {
			o.Config["gateway.durability"] = "async"
		}}},
		{"what was recovered is shown before it is synced", crashSetup{
			wrap: noting(vfs.OpSync, false, written, ofRecords), ends: []crashKind{killed, powerLoss},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			const most = 300
			for seed := range uint64(most) {
				if _, err := crashRun(c.setup, seed); err != nil {
					first, _, _ := strings.Cut(err.Error(), "\nthe life before")
					t.Logf("seed %d notices: %s", seed, first)
					return
				}
			}
			t.Errorf("%d seeds found nothing wrong", most)
		})
	}
}

// skipping leaves out the syncs that skip says.
func skipping(skip func(vfs.Op) bool) func() func(vfs.FS) vfs.FS {
	return func() func(vfs.FS) vfs.FS {
		return func(fsys vfs.FS) vfs.FS { return vfs.SkipSyncs(fsys, skip) }
	}
}

// noting leaves out the syncs of names that are not noted, or with after of those that are. note says of an operation
// which name it notes, "" for none.
func noting(kind vfs.OpKind, after bool, note func(vfs.Op) string, of func(name string) bool) func() func(vfs.FS) vfs.FS {
	return func() func(vfs.FS) vfs.FS {
		var noted sync.Map
		return func(fsys vfs.FS) vfs.FS {
			return vfs.Inject(fsys, func(op vfs.Op) error {
				if name := note(op); name != "" {
					noted.Store(name, true)
				}
				if _, ok := noted.Load(op.Name); op.Kind == kind && ok == after && of(op.Name) {
					return vfs.ErrSkip
				}
				return nil
			})
		}
	}
}

// rolled notes the directory of a segment that is not the first.
func rolled(op vfs.Op) string {
	if op.Kind == vfs.OpCreate && ofRecords(op.Name) && filepath.Base(op.Name) != "00000000000000000000.log" {
		return filepath.Dir(op.Name)
	}
	return ""
}

// written notes a file that is written to.
func written(op vfs.Op) string {
	if op.Kind == vfs.OpWriteAt {
		return op.Name
	}
	return ""
}

// ofRecords reports whether a file holds records of a topic.
func ofRecords(name string) bool {
	return strings.HasSuffix(name, ".log") && !strings.Contains(name, "__gateway_metadata")
}
