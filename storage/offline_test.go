package storage

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

const ordersDir = testDir + "/orders-0"

// flipByte changes one byte of a file, and so does again what it was; the change is on disk.
func flipByte(t *testing.T, fsys vfs.FS, name string, position int64) {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, position)
	b[0] ^= 0x40
	if _, werr := f.WriteAt(b, position); err != nil || werr != nil {
		t.Fatal(err, werr)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// syncedLines are the lines of the checkpoint of logs that went offline.
func syncedLines(t *testing.T, fsys vfs.FS) map[string]int64 {
	t.Helper()
	lines, err := readOffsetCheckpoint(fsys, filepath.Join(testDir, syncedCheckpoint))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int64)
	for _, l := range lines {
		found[partitionDirName(l.Topic, l.Partition)] = l.Offset
	}
	return found
}

// wantDamage checks that a log is offline for damage in the file.
func wantDamage(t *testing.T, l *Log, file string, position int64) {
	t.Helper()
	_, err := l.Offsets()
	c, ok := errors.AsType[*CorruptError](err)
	if !errors.Is(err, ErrOffline) || !ok || c.File != file || c.Position != position {
		t.Errorf("got %v, want ErrOffline with damage in %s at %d", err, file, position)
	}
}

// TestDamageStaysDamage takes a log offline for damage to what was acknowledged after the last checkpoint. No start after
// that may take it for the end of a write that was cut short.
func TestDamageStaysDamage(t *testing.T) {
	first := segmentFile(ordersDir, 0, logSuffix)
	size := int64(len(testBatch("v0"))) // of a batch
	read := func(verify bool) func(l *Log) error {
		return func(l *Log) error {
			for offset := int64(0); ; {
				res, err := l.Read(nil, ReadRequest{Offset: offset, MaxBytes: 100, MinOneBatch: true, VerifyCRC: verify})
				if err != nil || len(res.Data) == 0 {
					return err
				}
				offset = record.Batch(res.Data).NextOffset()
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, fsys vfs.FS) // made and undone
		meet   func(l *Log) error
		at     int64 // position of the damage
		later  int64 // where the next start finds it
	}{
		{
			name:   "header",
			change: func(t *testing.T, fsys vfs.FS) { flipByte(t, fsys, first, size+record.MagicPos) },
			meet:   read(false), at: size, later: size,
		},
		{
			name:   "record",
			change: func(t *testing.T, fsys vfs.FS) { flipByte(t, fsys, first, 2*size-1) },
			meet:   read(true), at: size, later: size,
		},
		{
			name:   "record of the last batch",
			change: func(t *testing.T, fsys vfs.FS) { flipByte(t, fsys, segmentFile(ordersDir, 3, logSuffix), 2*size-1) },
			meet:   read(true), at: size, later: size,
		},
		{
			name:   "record met by a rewrite",
			change: func(t *testing.T, fsys vfs.FS) { flipByte(t, fsys, first, 2*size-1) },
			meet: func(l *Log) error {
				_, err := l.Rewrite(0, 1, keepOffsets(2))
				return err
			},
			at: size, later: size,
		},
	} {
		file := first
		if c.name == "record of the last batch" {
			file = segmentFile(ordersDir, 3, logSuffix)
		}
		for _, end := range []string{"clean stop", "kill", "power loss", "checkpoint and kill"} {
			t.Run(c.name+"/"+end, func(t *testing.T) {
				mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
				s := openStore(t, mem)
				topic := createTopic(t, s, "orders", 1, "internal.segment.bytes", "250")
				l, _ := topic.Partition(0)
				appendDurably(t, l, testBatch("v0"))
				if err := s.saveCheckpoints(); err != nil {
					t.Fatal(err)
				}
				for _, v := range []string{"v1", "v2", "v3", "v4"} {
					appendDurably(t, l, testBatch(v))
				}
				c.change(t, mem)
				if err := c.meet(l); !errors.Is(err, ErrOffline) {
					t.Fatalf("got %v, want ErrOffline", err)
				}
				wantDamage(t, l, file, c.at)
				if got := syncedLines(t, mem); got["orders-0"] != 5 {
					t.Errorf("offline, known to be on disk: %v, want 5", got)
				}
				switch end {
				case "clean stop":
					closeStore(t, s)
				case "checkpoint and kill":
					if err := s.saveCheckpoints(); err != nil {
						t.Fatal(err)
					}
					mem = mem.KillClone()
				case "kill":
					mem = mem.KillClone()
				case "power loss":
					mem = mem.CrashClone(1, 0)
				}
				before := listTree(t, mem, ordersDir)
				for i := range 3 {
					s := openStore(t, mem)
					l, _ := lookUp(t, s, "orders").Partition(0)
					wantDamage(t, l, file, c.later)
					closeStore(t, s)
					if after := listTree(t, mem, ordersDir); !maps.Equal(before, after) {
						t.Fatalf("start %d changed the directory: %d files, there were %d", i, len(after), len(before))
					}
				}
				c.change(t, mem)
				s = openStore(t, mem)
				checkValues(t, lookUp(t, s, "orders"), 0, "v0", "v1", "v2", "v3", "v4")
				closeStore(t, s)
				if got := syncedLines(t, mem); len(got) != 0 {
					t.Errorf("in service again, the checkpoint has %v, want nothing", got)
				}
			})
		}
	}
}

// TestLostBytesStayDamage takes away the end of what was acknowledged.
func TestLostBytesStayDamage(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	topic := createTopic(t, s, "orders", 1)
	l, _ := topic.Partition(0)
	name := segmentFile(ordersDir, 0, logSuffix)
	for _, v := range []string{"v0", "v1"} {
		appendDurably(t, l, testBatch(v))
	}
	whole := fileBytes(t, mem, name)
	for _, size := range []int{len(whole) - 1, len(whole) / 2, 0} {
		damaged := mem.KillClone()
		s := openStore(t, damaged)
		l, _ := lookUp(t, s, "orders").Partition(0)
		checkValues(t, lookUp(t, s, "orders"), 0, "v0", "v1")
		setFile(t, damaged, name, whole[:size])
		if _, err := l.Read(nil, ReadRequest{MaxBytes: 1000}); !errors.Is(err, ErrOffline) {
			t.Fatalf("%d of %d bytes: got %v, want ErrOffline", size, len(whole), err)
		}
		damaged = damaged.KillClone()
		s = openStore(t, damaged)
		l, _ = lookUp(t, s, "orders").Partition(0)
		if _, err := l.Offsets(); !errors.Is(err, ErrOffline) {
			t.Errorf("%d of %d bytes: started with %v, want ErrOffline", size, len(whole), err)
		}
		if got := fileBytes(t, damaged, name); len(got) != size {
			t.Errorf("%d of %d bytes: %d are left", size, len(whole), len(got))
		}
	}
}

// TestFailedSyncIsNotKnownToBeOnDisk takes a log offline for a sync that failed: what was to be synced may be lost, and a
// start that does not find it must go on.
func TestFailedSyncIsNotKnownToBeOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		gate := &syncGate{}
		s, err := Open(testDir, Options{FS: gate.wrap(mem), Durability: Async, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		topic := createTopic(t, s, "orders", 1)
		mustProduce(t, topic, 0, "a")
		time.Sleep(asyncDelay)
		synctest.Wait()
		mustProduce(t, topic, 0, "b")
		gate.fail(&vfs.LostSync{Err: errInjected})
		time.Sleep(asyncDelay)
		synctest.Wait()
		l, _ := topic.Partition(0)
		if _, err := l.Offsets(); !errors.Is(err, ErrOffline) {
			t.Fatalf("got %v, want ErrOffline", err)
		}
		lost := mem.CrashClone(1, 0)
		if got := syncedLines(t, lost); got["orders-0"] != 1 {
			t.Errorf("known to be on disk: %v, want 1", got)
		}
		gate.fail(nil)
		closeStore(t, s)
		for _, c := range []struct {
			mem  *vfs.Mem
			want []string
		}{{lost, []string{"a"}}, {mem.CrashClone(2, 0), []string{"a"}}, {mem, []string{"a", "b"}}} {
			s := openStore(t, c.mem)
			checkValues(t, lookUp(t, s, "orders"), 0, c.want...)
			closeStore(t, s)
		}
	})
}

// TestOfflineWithoutRoomForTheCheckpoint cannot write what is on disk of a log that goes offline; the stop can.
func TestOfflineWithoutRoomForTheCheckpoint(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	var full atomic.Bool
	s := openStore(t, vfs.Inject(mem, func(o vfs.Op) error {
		if full.Load() && o.Kind == vfs.OpWriteAt && strings.HasPrefix(filepath.Base(o.Name), syncedCheckpoint) {
			return vfs.ErrNoSpace
		}
		return nil
	}))
	topic := createTopic(t, s, "orders", 1)
	l, _ := topic.Partition(0)
	for _, v := range []string{"v0", "v1"} {
		appendDurably(t, l, testBatch(v))
	}
	name := segmentFile(ordersDir, 0, logSuffix)
	flipByte(t, mem, name, record.MagicPos)
	full.Store(true)
	if _, err := l.Read(nil, ReadRequest{MaxBytes: 1000}); !errors.Is(err, ErrOffline) {
		t.Fatalf("got %v, want ErrOffline", err)
	}
	if got := syncedLines(t, mem); len(got) != 0 {
		t.Errorf("the checkpoint has %v although it cannot be written", got)
	}
	full.Store(false)
	closeStore(t, s)
	s = openStore(t, mem)
	l, _ = lookUp(t, s, "orders").Partition(0)
	wantDamage(t, l, name, 0)
}

// TestRoundThatEndsAfterTheLogWentOffline has records acknowledged that were being synced when the damage was met.
func TestRoundThatEndsAfterTheLogWentOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		gate := &syncGate{}
		s, err := Open(testDir, Options{FS: gate.wrap(mem), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		topic := createTopic(t, s, "orders", 1, "message.timestamp.after.max.ms", "9223372036854775807")
		mustProduce(t, topic, 0, "a")
		l, _ := topic.Partition(0)
		name := segmentFile(ordersDir, 0, logSuffix)
		open := gate.close()
		a := appendTo(t, l, testBatch("b"))
		synctest.Wait() // its sync has begun
		flipByte(t, mem, name, record.MagicPos)
		if _, err := l.Read(nil, ReadRequest{MaxBytes: 1000}); !errors.Is(err, ErrOffline) {
			t.Fatalf("got %v, want ErrOffline", err)
		}
		if got := syncedLines(t, mem); got["orders-0"] != 1 {
			t.Errorf("while it is being synced, known to be on disk: %v, want 1", got)
		}
		open()
		synctest.Wait()
		if err := l.WaitDurable(t.Context(), a); err != nil {
			t.Errorf("record that was being synced: %v", err)
		}
		if got := syncedLines(t, mem.KillClone()); got["orders-0"] != 2 {
			t.Errorf("then known to be on disk: %v, want 2", got)
		}
		closeStore(t, s)
	})
}

func TestWhatWasOnDiskOfADeletedTopicDoesNotMeetItsSuccessor(t *testing.T) {
	for _, restart := range []bool{false, true} {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		s := openStore(t, mem)
		old := createTopic(t, s, "orders", 1)
		mustProduce(t, old, 0, "a", "b")
		l, _ := old.Partition(0)
		flipByte(t, mem, segmentFile(ordersDir, 0, logSuffix), record.MagicPos)
		if _, err := l.Read(nil, ReadRequest{MaxBytes: 1000}); !errors.Is(err, ErrOffline) {
			t.Fatalf("got %v, want ErrOffline", err)
		}
		if restart {
			closeStore(t, s)
			s = openStore(t, mem)
		}
		if err := s.DeleteTopic(old.ID()); err != nil {
			t.Fatal(err)
		}
		fresh := createTopic(t, s, "orders", 1)
		mustProduce(t, fresh, 0, "new")
		if got := syncedLines(t, mem); len(got) != 0 {
			t.Errorf("the checkpoint has %v, want nothing", got)
		}
		s = openStore(t, mem.CrashClone(2, 0))
		checkValues(t, lookUp(t, s, "orders"), 0, "new")
	}
}

// A log that is in service again has its line dropped with the next checkpoint. When the topic is deleted before that is
// written, the file must be without it all the same.
func TestLineThatWasDroppedIsGoneWithItsTopic(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	c, live := &s.checkpoints, func() bool { return true }
	c.raiseSynced("orders", 0, 5, live)
	if err := c.flushFile(syncedOffsets); err != nil {
		t.Fatal(err)
	}
	c.save("orders", 0, 5, 0, 5, 0, live)
	if got := syncedLines(t, mem); got["orders-0"] != 5 {
		t.Fatalf("the checkpoint has %v before it is written anew, want 5", got)
	}
	if err := c.drop("orders", 1); err != nil {
		t.Fatal(err)
	}
	if got := syncedLines(t, mem); len(got) != 0 {
		t.Errorf("the checkpoint has %v when the topic is deleted, want nothing", got)
	}
	closeStore(t, s)
}

// TestSegmentThatVanishesFromAnOfflineLogIsDamage loses a segment that was closed after the last checkpoint, with its
// indexes and without.
func TestSegmentThatVanishesFromAnOfflineLogIsDamage(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	topic := createTopic(t, s, "orders", 1, "internal.segment.bytes", "250")
	l, _ := topic.Partition(0)
	if err := s.saveCheckpoints(); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		appendDurably(t, l, testBatch("v0"))
	}
	flipByte(t, mem, segmentFile(ordersDir, 6, logSuffix), record.MagicPos)
	if _, err := l.Read(nil, ReadRequest{Offset: 6, MaxBytes: 1000}); !errors.Is(err, ErrOffline) {
		t.Fatalf("got %v, want ErrOffline", err)
	}
	first, second := segmentFile(ordersDir, 0, logSuffix), segmentFile(ordersDir, 3, logSuffix)
	for _, c := range []struct {
		gone     []string
		file     string
		position int64
	}{
		{[]string{logSuffix}, second, -1},
		{[]string{logSuffix, indexSuffix, timeIndexSuffix}, first, int64(3 * len(testBatch("v0")))},
	} {
		mem := mem.KillClone()
		for _, suffix := range c.gone {
			if err := mem.Remove(segmentFile(ordersDir, 3, suffix)); err != nil {
				t.Fatal(err)
			}
		}
		before := listTree(t, mem, ordersDir)
		s := openStore(t, mem)
		l, _ := lookUp(t, s, "orders").Partition(0)
		wantDamage(t, l, c.file, c.position)
		if after := listTree(t, mem, ordersDir); !maps.Equal(before, after) {
			t.Errorf("without %v the start changed the directory: %d files, there were %d", c.gone, len(after), len(before))
		}
	}
}

// A checkpoint that looked at a log while it was in service may come to the file after the log went offline.
func TestCheckpointKeepsWhatIsKnownToBeOnDisk(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	c := &s.checkpoints
	live, dead := func() bool { return true }, func() bool { return false }
	c.raiseSynced("gone", 0, 5, dead)
	c.raiseSynced("orders", 0, 5, live)
	c.raiseSynced("orders", 0, 0, live) // what the next start knows when it finds the damage
	c.save("orders", 0, 4, 0, 5, 0, live)
	if got := c.origin("orders", 0); got.synced != 5 || got.recoveryPoint != 4 {
		t.Errorf("got %d and the recovery point %d, want 5 and 4", got.synced, got.recoveryPoint)
	}
	if got := c.origin("gone", 0).synced; got != 0 {
		t.Errorf("topic that is gone: got %d, want 0", got)
	}
	c.save("orders", 0, 5, 0, 5, 0, live)
	if got := c.origin("orders", 0).synced; got != 0 {
		t.Errorf("recovery point there: got %d, want 0", got)
	}
}

// TestAdoptionForgetsWhatWasKnownToBeOnDisk finds a checkpoint that Kafka, which served the directory since, did not keep.
func TestAdoptionForgetsWhatWasKnownToBeOnDisk(t *testing.T) {
	mem := adoptFS(t)
	lines := []PartitionOffset{{metadataTopic, 0, 1 << 40}, {"plain", 0, 1 << 40}}
	if err := writeOffsetCheckpoint(mem, filepath.Join(testDir, syncedCheckpoint), lines); err != nil {
		t.Fatal(err)
	}
	syncTree(t, mem, testDir)
	var clones []*vfs.Mem
	opening := true // later several logs are at work at a time
	s := openStore(t, vfs.After(mem, func(o vfs.Op, err error) {
		for i := 0; i < 8 && opening && o.Kind.Mutates(); i++ {
			clones = append(clones, mem.CrashClone(uint64(len(clones)), 0.5))
		}
	}))
	opening = false
	checkAdoptedRecords(t, s)
	for i, mem := range clones {
		if _, err := mem.Stat(filepath.Join(testDir, partitionDirName(metadataTopic, 0))); notExist(err) {
			continue
		}
		if got := syncedLines(t, mem); len(got) > 0 {
			t.Fatalf("crash %d, adopted: the checkpoint has %v, want nothing", i, got)
		}
	}
}

// TestAdoptedLogIsOnlyKnownToBeOnDiskWhenItIs meets damage in another broker's directory, whose files could be synced or
// not.
func TestAdoptedLogIsOnlyKnownToBeOnDiskWhenItIs(t *testing.T) {
	for _, fail := range []bool{false, true} {
		gate := &syncGate{}
		mem := vfs.NewMem(vfs.MemOptions{})
		rig := newLogRig(t, gate.wrap(mem))
		l := rig.start()
		appendDurably(t, l, testBatch("a"))
		rig.kill(l)
		rig.adopted = true
		if fail {
			gate.fail(errInjected)
		}
		l = rig.start()
		saved := int64(-1)
		rig.ctx.saveSynced = func(_ *Log, offset int64) error { saved = offset; return nil }
		wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 1, End: 1})
		flipByte(t, mem, segmentFile(testLogDir, 0, logSuffix), record.MagicPos)
		if _, err := l.Read(nil, ReadRequest{MaxBytes: 1000}); !errors.Is(err, ErrOffline) {
			t.Fatalf("got %v, want ErrOffline", err)
		}
		if want := map[bool]int64{false: 1, true: 0}[fail]; saved != want {
			t.Errorf("sync failed: %v; known to be on disk up to %d, want %d", fail, saved, want)
		}
		rig.kill(l)
	}
}

// TestDamageOfTheMetadataLogStaysDamage meets damage in its last batch, which a start takes for torn if it knows no better.
func TestDamageOfTheMetadataLogStaysDamage(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	createTopic(t, s, "orders", 1)
	l := s.metadata.log
	name := segmentFile(l.dir, 0, logSuffix)
	flipByte(t, mem, name, int64(len(fileBytes(t, mem, name))-1))
	var err error
	for offset := int64(0); err == nil; {
		var res ReadResult
		if res, err = l.Read(nil, ReadRequest{Offset: offset, MaxBytes: 1, MinOneBatch: true, VerifyCRC: true}); err == nil {
			offset = record.Batch(res.Data).NextOffset()
		}
	}
	if !errors.Is(err, ErrOffline) {
		t.Fatalf("got %v, want ErrOffline", err)
	}
	mem = mem.KillClone()
	before := listTree(t, mem, testDir)
	s, err = Open(testDir, Options{FS: mem})
	if c, ok := errors.AsType[*CorruptError](err); !ok || c.File != name || errors.Is(err, ErrOffline) {
		t.Fatalf("open: %v, %v, want damage in %s that is found before the log is recovered", s, err, name)
	}
	if after := listTree(t, mem, testDir); !maps.Equal(before, after) {
		t.Errorf("the start changed the directory: %d files, there were %d", len(after), len(before))
	}
}
