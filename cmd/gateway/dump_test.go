package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// runDump runs the command and returns what it printed and its exit code and error.
func runDump(t *testing.T, args ...string) (out string, code int, err error) {
	t.Helper()
	var b bytes.Buffer
	cmd := newDumpCommand()
	cmd.SetOut(&b)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err = cmd.ExecuteContext(t.Context()); err == nil {
		return b.String(), exitDone, nil
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		t.Fatalf("dump %q: got %v, want an exitError", args, err)
	}
	return b.String(), exit.Code, err
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test ./cmd/gateway -rewrite, then read the diff. Got:\n%s", file, got)
	}
}

// The files in storage/testdata are of Apache Kafka 4.4: rolled segments with idempotent and transactional batches,
// each index, snapshots and checkpoints.
const (
	kafkaPartitions = "../../storage/testdata/adopt/"
	kafkaFiles      = "../../storage/testdata/kafka-4.4.0/"
)

func TestDumpOfAPartitionOfKafka(t *testing.T) {
	out, code, err := runDump(t, "--deep", kafkaPartitions+"orders-1", kafkaPartitions+"compacted-0", kafkaPartitions+"__transaction_state-0",
		kafkaPartitions+"__consumer_offsets-0")
	if code != exitDone {
		t.Errorf("got exit code %d, %v, want none", code, err)
	}
	golden(t, "dump_partition.golden", out)
}

// TestDumpOfOurMetadata looks for the parts of a credential in what is printed of the log that keeps it.
func TestDumpOfOurMetadata(t *testing.T) {
	dir := t.TempDir()
	s, err := storage.Open(dir, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.AlterScramCredentials(func(storage.ScramCredentials) ([]storage.ScramChange, error) {
		c := auth.ScramCredential{Salt: []byte("hush-salt"), StoredKey: []byte("hush-stored"), ServerKey: []byte("hush-server"), Iterations: 4096}
		return []storage.ScramChange{{User: storage.ScramUser{Name: "ann", Mechanism: auth.ScramSHA256}, Credential: &c}}, nil
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	out, code, err := runDump(t, "--deep", "--hex", "--limit", "0", filepath.Join(dir, "__gateway_metadata-0"))
	if code != exitDone {
		t.Errorf("got exit code %d, %v, want none", code, err)
	}
	if want := `SCRAM-SHA-256 credential of user "ann", 4096 iterations`; !strings.Contains(out, want) {
		t.Errorf("got %s, want %s in it", out, want)
	}
	for _, secret := range []string{"hush", "68 75 73 68", "68757368"} {
		if strings.Contains(out, secret) {
			t.Errorf("a secret is printed:\n%s", out)
		}
	}
}

func TestDumpOfSmallFilesOfKafka(t *testing.T) {
	var args []string
	for _, name := range []string{"00000000000000000746.snapshot", "leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "partition.metadata",
		"meta.properties", "kafka_cleanshutdown"} {
		args = append(args, kafkaFiles+name)
	}
	out, code, err := runDump(t, append(args, "--hex", "--limit", "48")...)
	if code != exitDone {
		t.Errorf("got exit code %d, %v, want none", code, err)
	}
	golden(t, "dump_small.golden", out)
}

func TestDumpOfAWholeDirectoryOfKafka(t *testing.T) {
	out, code, err := runDump(t, kafkaPartitions)
	if code != exitDone || !strings.HasSuffix(out, ", 0 damaged places\n") {
		t.Errorf("got exit code %d, %v, want none; output ends %q", code, err, out[max(0, len(out)-200):])
	}
	if zero, one := strings.Index(out, "orders-0/"), strings.Index(out, "orders-1/"); zero < 0 || one < zero {
		t.Errorf("got orders-0 at %d and orders-1 at %d, want them in order", zero, one)
	}
}

func TestRoomNotUsedInAnIndexIsNoDamage(t *testing.T) {
	for name, want := range map[string]int{"preallocated.index": 600, "preallocated.timeindex": 391, "00000000000000001000.index": 600} {
		b, err := os.ReadFile(kafkaFiles + name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "00000000000000001000"+filepath.Ext(name))
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		out, code, err := runDump(t, file)
		if code != exitDone || !strings.Contains(out, fmt.Sprintf("\n  %d entries\n", want)) {
			t.Errorf("%s: got exit code %d, %v, want none and %d entries:\n%s", name, code, err, want, out)
		}
	}
}

// dumpSegment returns the files of a small segment at base 100: batches at the positions that come back, with an offset
// entry for each but the first, and a time index.
func dumpSegment(t testing.TB, codec record.Codec) (files map[string][]byte, positions []int) {
	t.Helper()
	var log, index, times []byte
	for i := range int64(4) {
		base := 100 + 3*i
		b := record.NewBuilder(record.BuilderOptions{Codec: codec, BaseOffset: base, LeaderEpoch: 2, HasProducer: true, ProducerID: 7, BaseSequence: int32(3 * i)})
		for j := range int64(3) {
			b.Append(record.Record{Timestamp: 1700000000000 + 10*i + j, Key: []byte("k"), Value: []byte(strings.Repeat("v", 20))})
		}
		positions = append(positions, len(log))
		if i > 0 {
			index = binary.BigEndian.AppendUint32(index, uint32(base+2-100))
			index = binary.BigEndian.AppendUint32(index, uint32(len(log)))
		}
		times = binary.BigEndian.AppendUint64(times, uint64(1700000000000+10*i+2))
		times = binary.BigEndian.AppendUint32(times, uint32(base+2-100))
		log = append(log, b.Bytes()...)
	}
	return map[string][]byte{".log": log, ".index": index, ".timeindex": times}, positions
}

// writeSegment puts the files of a segment at base 100 into a new directory.
func writeSegment(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "orders-0")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for suffix, b := range files {
		if err := os.WriteFile(filepath.Join(dir, "00000000000000000100"+suffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDamageIsNamedAndTheRestIsPrinted(t *testing.T) {
	_, at := dumpSegment(t, record.None)
	put32 := func(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }
	for _, c := range []struct {
		name   string
		change func(f map[string][]byte)
		file   string   // the one named
		want   []string // in the error
		also   []string // in the output
	}{
		{"a flipped bit in a record", func(f map[string][]byte) { f[".log"][at[1]+70] ^= 1 }, ".log",
			[]string{fmt.Sprintf("position %d", at[1]), "got crc-32c", "want"}, []string{"BAD", "4 batches"}},
		{"a length that is too large", func(f map[string][]byte) { put32(f[".log"][at[1]+record.LengthPos:], 1<<30) }, ".log",
			[]string{fmt.Sprintf("position %d", at[1]), "bytes left", fmt.Sprintf("follow at position %d", at[2])}, []string{"3 batches", "not checked"}},
		{"a length that is a little too large", func(f map[string][]byte) { f[".log"][at[1]+record.LengthPos+3]++ }, ".log",
			[]string{fmt.Sprintf("position %d", at[1]), "got crc-32c", fmt.Sprintf("follow at position %d", at[2])}, []string{"3 batches"}},
		{"a torn tail", func(f map[string][]byte) { f[".log"] = f[".log"][:len(f[".log"])-10] }, ".log",
			[]string{fmt.Sprintf("position %d", at[3]), "torn tail", "bytes left"}, []string{"3 batches"}},
		{"a tail of zeros", func(f map[string][]byte) { clear(f[".log"][at[3]:]) }, ".log",
			[]string{fmt.Sprintf("position %d", at[3]), "torn tail", "zeros"}, []string{"3 batches"}},
		{"a base offset that falls back", func(f map[string][]byte) { f[".log"][at[2]+7] = 1 }, ".log",
			[]string{fmt.Sprintf("position %d", at[2]), "got base offset 1, want at least 106"}, []string{"4 batches"}},
		{"an old format that is none", func(f map[string][]byte) { f[".log"][at[2]+record.MagicPos] = 1 }, ".log",
			[]string{fmt.Sprintf("position %d", at[2]), "magic"}, []string{"3 batches"}},
		{"an entry between batches", func(f map[string][]byte) { f[".index"][7+8]-- }, ".index",
			[]string{"position 8", fmt.Sprintf("got log position %d", at[2]-1), "where a batch begins"}, []string{"3 entries"}},
		{"an entry beyond the log", func(f map[string][]byte) { put32(f[".index"][20:], 5000) }, ".index",
			[]string{"position 16", "log position 5000", "ends at position"}, []string{"3 entries"}},
		{"an entry of another offset", func(f map[string][]byte) { f[".index"][3]-- }, ".index",
			[]string{"position 0", "got offset 104", "want 105"}, []string{"3 entries"}},
		{"entries that do not ascend", func(f map[string][]byte) { f[".index"][8+3] = 1 }, ".index",
			[]string{"position 8", "offset 101"}, []string{"2 entries"}},
		{"a time that the log does not have", func(f map[string][]byte) { f[".timeindex"][7]-- }, ".timeindex",
			[]string{"position 0", "got timestamp 1700000000001", "want 1700000000002"}, []string{"4 entries"}},
		{"a cut index", func(f map[string][]byte) { f[".timeindex"] = f[".timeindex"][:40] }, ".timeindex",
			[]string{"position 36", "4 bytes left"}, []string{"3 entries"}},
	} {
		files, _ := dumpSegment(t, record.None)
		c.change(files)
		out, code, err := runDump(t, writeSegment(t, files), "--deep", "--hex")
		if code != exitNo {
			t.Errorf("%s: got exit code %d, %v, want %d", c.name, code, err, exitNo)
			continue
		}
		for _, w := range append(c.want, "00000000000000000100"+c.file+": ") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: got error %q, want %q in it", c.name, err, w)
			}
		}
		for _, w := range append(c.also, "DAMAGED at position") {
			if !strings.Contains(out, w) {
				t.Errorf("%s: want %q in the output:\n%s", c.name, w, out)
			}
		}
	}
}

func TestEntryForSeveralBatchesIsAccepted(t *testing.T) {
	files, _ := dumpSegment(t, record.None)
	// What Kafka before KAFKA-806 writes for an append of the second and third batch.
	files[".index"] = slices.Concat(binary.BigEndian.AppendUint32(nil, 8), files[".index"][4:8], files[".index"][16:])
	out, code, err := runDump(t, writeSegment(t, files))
	if code != exitDone || !strings.Contains(out, "the entry is for several batches, the first ends at offset 105") {
		t.Errorf("got exit code %d, %v, want none and a word about it:\n%s", code, err, out)
	}
}

func TestKeptTailsAndUnfinishedFilesAreNoDamage(t *testing.T) {
	files, at := dumpSegment(t, record.None)
	log := files[".log"]
	files[fmt.Sprintf(".log.torn-%d", len(log))] = log[at[1]+5:]
	files[".log.torn-0.1"] = []byte("short")
	files[".log.cleaned"] = log[:at[1]+30]
	files[".log.swap"] = log[at[1]:]
	files[".index.deleted"] = files[".index"]
	out, code, err := runDump(t, writeSegment(t, files))
	if code != exitDone {
		t.Errorf("got exit code %d, %v, want none", code, err)
	}
	for _, want := range []string{"tail cut off a log", "not whole at position 0", "then batches follow", "of a compaction that did not end", "torn tail",
		"about to be deleted", "to replace what it was made from", "no 00000000000000000100.log.deleted beside it"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in the output:\n%s", want, out)
		}
	}
}

func TestRecordsOfEveryCodecAndNulls(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		b := record.NewBuilder(record.BuilderOptions{Codec: codec, LogAppendTime: true, AppendTimeMs: 1700000000000, DeleteHorizonMs: 1700000000001,
			HasProducer: true, ProducerID: 5, BaseSequence: math.MaxInt32, Transactional: true})
		b.Append(record.Record{Key: nil, Value: []byte{}, Headers: []record.Header{{Key: []byte("h"), Value: nil}, {Key: []byte{}, Value: []byte{0xff}}}})
		b.Append(record.Record{Key: []byte{}, Value: nil})
		dir := writeSegment(t, nil)
		file := filepath.Join(dir, "00000000000000000000.log")
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		out, code, err := runDump(t, "--deep", file)
		if code != exitDone {
			t.Errorf("%v: got exit code %d, %v, want none", codec, code, err)
		}
		for _, want := range []string{" " + codec.String() + " ", `key null  value ""  headers "h"=null, ""=0xff`, `key ""  value null`, "append",
			"transactional,delete-horizon=1700000000001(2023-11-14T22:13:20.001Z)", "2147483647-0", "1700000000000 2023-11-14T22:13:20.000Z"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: want %q in the output:\n%s", codec, want, out)
			}
		}
	}
}

func TestLongValuesAreCutAtALimit(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Value: []byte(strings.Repeat("ä", 50))})
	file := filepath.Join(t.TempDir(), "00000000000000000000.log")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, _ := runDump(t, "--deep", "--limit", "5", file)
	if !strings.Contains(out, `value "ää"… (100 bytes)`) {
		t.Errorf("want the value cut at a whole letter:\n%s", out)
	}
	if _, code, err := runDump(t, "--limit", "-1", file); code != exitUsage {
		t.Errorf("--limit -1: got exit code %d, %v, want %d", code, err, exitUsage)
	}
}

func TestFilesThatCannotBeDumped(t *testing.T) {
	dir := t.TempDir()
	unknown := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(unknown, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, code, err := runDump(t, unknown); code != exitUsage {
		t.Errorf("a file of another kind: got exit code %d, %v, want %d", code, err, exitUsage)
	}
	if _, code, err := runDump(t, filepath.Join(dir, "00000000000000000000.log")); code != exitFailed || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got exit code %d, %v, want %d", code, err, exitFailed)
	}
	if out, code, err := runDump(t, dir); code != exitDone || !strings.Contains(out, "passed over") {
		t.Errorf("a directory with it: got exit code %d, %v, want it passed over:\n%s", code, err, out)
	}
}

func TestDumpOrdersSegmentsAndPartitions(t *testing.T) {
	files := []string{"00000000000000000010.log", "00000000000000000000.timeindex", "partition.metadata", "00000000000000000000.log.deleted",
		"00000000000000000000.index", "00000000000000000000.log"}
	slices.SortFunc(files, compareFiles)
	want := []string{"partition.metadata", "00000000000000000000.log", "00000000000000000000.log.deleted", "00000000000000000000.index",
		"00000000000000000000.timeindex", "00000000000000000010.log"}
	if !slices.Equal(files, want) {
		t.Errorf("got %q, want %q", files, want)
	}
	dirs := []string{"t-10", "t-2", "a-b-1", "t-2.0123-delete"}
	slices.SortFunc(dirs, comparePartitions)
	if want := []string{"a-b-1", "t-2", "t-10", "t-2.0123-delete"}; !slices.Equal(dirs, want) {
		t.Errorf("got %q, want %q", dirs, want)
	}
}

func TestLargeLogIsNotLoaded(t *testing.T) {
	const size = 64 << 20
	files, _ := dumpSegment(t, record.None)
	header := files[".log"][:record.HeaderSize]
	binary.BigEndian.PutUint32(header[record.LengthPos:], size/2-record.LogOverhead)
	half := record.CRC32C(slices.Concat(header[record.AttributesPos:], make([]byte, size/2-record.HeaderSize)))
	binary.BigEndian.PutUint32(header[record.CRCPos:], half)
	var out bytes.Buffer
	d := newDumper(t.Context(), bufio.NewWriter(&out), dumpFlags{limit: 1024})
	d.open = func(name string) (*dumpFile, error) {
		return &dumpFile{name: name, kind: kindOfFile(name), r: headerAndZeros{header, size}, size: size, close: func() {}}, nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d.one("00000000000000000100.log")
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("got %d bytes allocated for a file of %d with a batch of half of it, want at most 1 MiB", got, size)
	}
	if err := d.end(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("position %d: torn tail: 33554432 bytes", size/2)) {
		t.Errorf("got %v, want the zeros after the batch named:\n%s", err, out.String())
	}
}

// headerAndZeros is a file that begins with bytes and goes on with zeros.
type headerAndZeros struct {
	head []byte
	size int64
}

func (f headerAndZeros) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(f.head)) {
		copy(b, f.head[at:])
	}
	return len(b), nil
}

// FuzzDump prints hostile files of every kind, alone and with a log beside them. The invariant: dump ends without a
// panic, and a log without a word about damage is whole batches back to back.
func FuzzDump(f *testing.F) {
	names := []string{"00000000000000000100.log", "00000000000000000100.index", "00000000000000000100.timeindex", "00000000000000000100.txnindex",
		"00000000000000000100.snapshot", "leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "partition.metadata", "meta.properties",
		".kafka_cleanshutdown", "quorum-state", "00000000000000000100.log.torn-7", "00000000000000000100-0000000001.checkpoint"}
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		files, at := dumpSegment(f, codec)
		for i, name := range names {
			f.Add(byte(i), files[path.Ext(name)], files[".log"])
		}
		f.Add(byte(0), files[".log"][:at[2]+9], []byte{})
		f.Add(byte(1), append(files[".index"], 0, 0, 0, 0, 0, 0, 0, 0), files[".log"][:at[2]+9])
	}
	for i, name := range []string{"", "", "", "00000000000000001000.txnindex", "00000000000000000746.snapshot", "leader-epoch-checkpoint",
		"recovery-point-offset-checkpoint", "partition.metadata", "meta.properties", "kafka_cleanshutdown"} {
		if name != "" {
			b, err := os.ReadFile(kafkaFiles + name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(byte(i), b, []byte{})
		}
	}
	for i, dir := range []string{"__consumer_offsets", "__transaction_state"} {
		b, err := os.ReadFile(kafkaPartitions + dir + "-0/00000000000000000000.log")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i*16), b, []byte{})
	}
	f.Fuzz(func(t *testing.T, which byte, b, log []byte) {
		name := names[int(which%16)%len(names)]
		d := newDumper(context.Background(), bufio.NewWriter(io.Discard), dumpFlags{deep: true, hex: true, limit: 64})
		d.reader.MaxDecompressed = 1 << 20
		d.open = func(n string) (*dumpFile, error) {
			content := b
			if n != name {
				if content = log; len(log) == 0 {
					return nil, fs.ErrNotExist
				}
			}
			topic := "__consumer_offsets"
			if which >= 16 {
				topic = "__transaction_state"
			}
			return &dumpFile{name: n, topic: topic, kind: kindOfFile(n), r: bytes.NewReader(content), size: int64(len(content)), close: func() {}}, nil
		}
		d.one(name)
		err := d.end()
		if len(d.failures) > 0 {
			t.Fatalf("%s: got %v, want damage at most", name, d.failures)
		}
		if kindOfFile(name).form != formLog || kindOfFile(name).lenient || err != nil {
			return
		}
		for rest := b; len(rest) > 0; {
			if _, rest, err = record.Cut(rest); err != nil {
				if errors.Is(err, record.ErrMagic) {
					return // an old message, whose own checksum is right
				}
				t.Fatalf("%s: no damage was found, but %v with %d bytes left", name, err, len(rest))
			}
		}
	})
}

// A server that stops writes its small files anew, under other names first.
func TestFilesThatVanishWhileADirectoryIsPrintedArePassedOver(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"orders-0/00000000000000000000.snapshot.tmp", "orders-0/leader-epoch-checkpoint", "orders-1/leader-epoch-checkpoint"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("0\n0\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	d := newDumper(t.Context(), bufio.NewWriter(&out), dumpFlags{})
	d.open = func(name string) (*dumpFile, error) {
		if strings.HasSuffix(name, ".tmp") {
			if err := errors.Join(os.Remove(name), os.RemoveAll(filepath.Join(dir, "orders-1"))); err != nil {
				t.Error(err)
			}
		}
		return openForDump(name)
	}
	d.path(dir)
	if len(d.failures) > 0 || d.files != 1 {
		t.Errorf("%d files printed, failures %v; want the one that is left", d.files, d.failures)
	}
	d.path(filepath.Join(dir, "orders-1"))
	if len(d.failures) != 1 {
		t.Errorf("failures %v, want that of the directory that was asked for", d.failures)
	}
}

func TestDumpKnowsWhatACompactionLeaves(t *testing.T) {
	files, _ := dumpSegment(t, record.None)
	dir := filepath.Join(t.TempDir(), "orders-0")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	base := "00000000000000000100"
	for name, content := range map[string][]byte{
		base + ".log.deleted": files[".log"], base + ".index.deleted": files[".index"],
		base + ".log.swap": files[".log"], base + ".index.swap": files[".index"], base + ".timeindex.swap": files[".timeindex"],
		base + ".00000000000000000140.reaches": nil,
		"00000000000000000200.log.cleaned":     files[".log"][:90], "00000000000000000200.index.cleaned": nil,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, code, err := runDump(t, dir)
	if code != exitDone || !strings.HasSuffix(out, ", 0 damaged places\n") {
		t.Errorf("got exit code %d, %v, want none, and no damage:\n%s", code, err, out)
	}
	for _, want := range []string{
		base + ".00000000000000000140.reaches: note of how far a compacted segment reaches, 0 bytes, base offset 100\n  the segment at 100 holds what is left of the offsets below 140\n",
		".log.deleted: log, ", ", about to be deleted\n", ", of a compaction, to replace what it was made from\n", ", of a compaction that did not end\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got no %q in:\n%s", want, out)
		}
	}
	for name, content := range map[string]string{base + ".00000000000000000100.reaches": "", base + ".reaches": "", base + ".00000000000000000101.reaches": "x"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code, _ := runDump(t, file); code != exitNo || !strings.Contains(out, "DAMAGED at position 0") {
			t.Errorf("%s with %q: got exit code %d, want damage:\n%s", name, content, code, out)
		}
	}
}
