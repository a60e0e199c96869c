package compat_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// segments is the partition's .log files in order.
func (s *server) segments(t testing.TB, tp topic, p int32) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Dir, fmt.Sprintf("%s-%d", tp.Name, p), "*.log"))
	if err != nil || len(names) == 0 {
		t.Fatalf("segments of %s-%d: %v, %v", tp.Name, p, names, err)
	}
	slices.Sort(names)
	return names
}

// appendBytes adds bytes to the end of a file.
func appendBytes(t testing.TB, name string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestTornTails(t *testing.T) {
	t.Parallel()
	whole := one("never acknowledged")
	whole.Base = 10
	batch := whole.bytes(t)
	flipped := bytes.Clone(batch)
	flipped[len(flipped)-1] ^= 1
	for name, tail := range map[string][]byte{
		"REC-01 torn tail":                              batch[:40],
		"REC-01 torn tail, a byte short":                batch[:len(batch)-1],
		"REC-01 torn tail, a bad CRC":                   flipped,
		"REC-01 torn tail, one byte":                    {0},
		"REC-02 zero-filled tail after power loss":      make([]byte, 4096),
		"REC-02 zero-filled tail, all bits set":         bytes.Repeat([]byte{0xff}, 4096),
		"REC-02 zero-filled tail, whole batch after it": slices.Concat(make([]byte, 100), batch),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.needProcess(t)
			tp := s.createTopic(t, "torn", 1)
			c := s.dial(t)
			for i := range 10 {
				mustProduce(c, tp, 0, one(fmt.Sprint("value ", i)))
			}
			s.Kill9(t)
			segment := slices.Max(s.segments(t, tp, 0))
			before, err := os.ReadFile(segment)
			if err != nil {
				t.Fatal(err)
			}
			appendBytes(t, segment, tail)
			s.Start(t)
			c = s.dial(t)
			wantEnd(c, tp, 0, 10)
			if after, err := os.ReadFile(segment); err != nil || !bytes.Equal(after, before) {
				t.Errorf("the segment has %d bytes, want the %d before the tail came (%v)", len(after), len(before), err)
			}
			want(t, "next offset", mustProduce(c, tp, 0, one("value 10")), 10)
			for i, v := range values(c, tp, 0, 0) {
				want(t, "value", v, fmt.Sprint("value ", i))
			}
			wantEnd(c, tp, 0, 11)
			s.Restart(t, stopped)
			wantEnd(s.dial(t), tp, 0, 11)
		})
	}
}

func TestDamagedIndexes(t *testing.T) {
	t.Parallel()
	damages := []struct {
		name string
		do   func(name string) error
	}{
		{"deleted", os.Remove},
		{"truncated to an odd size", func(name string) error {
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			return os.Truncate(name, max(0, info.Size()-3))
		}},
		{"truncated to nothing", func(name string) error { return os.Truncate(name, 0) }},
		{"padded with zeros", func(name string) error {
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			return os.Truncate(name, info.Size()+96)
		}},
		{"filled with 0xff", func(name string) error {
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			return os.WriteFile(name, bytes.Repeat([]byte{0xff}, int(info.Size())), 0o644)
		}},
	}
	for _, how := range []string{killed, stopped} {
		t.Run("REC-04 lost, truncated or zero-padded index after "+how, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.needProcess(t)
			const n = 120
			tp := s.createTopic(t, "index", 1, "internal.segment.bytes", "3000", "index.interval.bytes", "100")
			c := s.dial(t)
			for i := range n {
				mustProduce(c, tp, 0, batch{Records: []rec{{Value: fmt.Append(nil, i), Time: 1000 + int64(i)*10}}})
			}
			if got := len(s.segments(t, tp, 0)); got < 3 {
				t.Fatalf("%d segments, want several", got)
			}
			for _, suffix := range []string{".index", ".timeindex", ".snapshot"} {
				for _, d := range damages {
					if how == killed {
						s.Kill9(t)
					} else {
						s.Stop(t)
					}
					files, err := filepath.Glob(filepath.Join(s.Dir, tp.Name+"-0", "*"+suffix))
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range files {
						if err := d.do(f); err != nil {
							t.Fatal(err)
						}
					}
					s.Start(t)
					c := s.dial(t)
					what := suffix + " " + d.name + ": "
					want(t, what+"earliest", offsetOf(c, tp, 0, earliest), 0)
					for i, v := range values(c, tp, 0, 0) {
						want(t, what+"value", v, fmt.Sprint(i))
					}
					for i := int64(0); i < n; i += 7 {
						got := listOffset(c, 11, tp, 0, 1000+i*10-3, 0)
						if got.ErrorCode != 0 || got.Offset != i || got.Timestamp != 1000+i*10 {
							t.Fatalf("%stime %d: got error %s, offset %d, time %d; want offset %d", what, 1000+i*10-3, code(got.ErrorCode), got.Offset, got.Timestamp, i)
						}
						want(t, what+"batch at an offset", fetch(c, 12, tp, 0, i)[0].FirstOffset, i)
					}
					wantEnd(c, tp, 0, n)
				}
			}
		})
	}
}

func TestLockedDirectory(t *testing.T) {
	t.Parallel()
	t.Run("REC-10 data directory is locked", func(t *testing.T) {
		s := newServer(t)
		s.needProcess(t)
		tp := s.createTopic(t, "rec-10", 1)
		exit, said := fails(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", s.Dir)
		want(t, "exit code", exit, 4)
		if !strings.Contains(said, s.Dir) || !strings.Contains(said, "lock") {
			t.Errorf("the second process says %q, want it to name the directory and the lock", said)
		}
		mustProduce(s.dial(t), tp, 0, one("unaffected"))
		s.Restart(t, killed)
		want(t, "records after kill -9 and a stale lock", len(values(s.dial(t), tp, 0, 0)), 1)
	})
}

func TestDeletedTopicStaysDeleted(t *testing.T) {
	t.Parallel()
	t.Run("REC-11 deleted topic stays deleted over kill -9", func(t *testing.T) {
		s := newServer(t, "-c", "log.segment.delete.delay.ms=0")
		tp := s.createTopic(t, "rec-11", 2)
		c := s.dial(t)
		mustProduce(c, tp, 0, one("x"))
		deleteTopic(t, c, tp)
		s.Restart(t, killed)
		c = s.dial(t)
		want(t, "exists", exists(c, tp.Name), false)
		again := s.createNamedTopic(t, tp.Name, 1)
		wantEnd(c, again, 0, 0)
		s.Restart(t, stopped)
		s.Stop(t)
		left, err := filepath.Glob(filepath.Join(s.Dir, tp.Name+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range left {
			if hasRecords(t, dir) {
				t.Errorf("%s is left", filepath.Base(dir))
			}
		}
	})
}

func TestLogStartOverRestarts(t *testing.T) {
	t.Parallel()
	for _, how := range []string{killed, stopped} {
		t.Run("REC-12 log start survives a "+how, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			tp := s.createTopic(t, "rec-12", 1, "internal.segment.bytes", "2000")
			c := s.dial(t)
			for i := range 100 {
				mustProduce(c, tp, 0, one(fmt.Sprint(i, " ", strings.Repeat("x", 50)), "y", "z"))
			}
			deleteRecords(t, c, tp, 0, 151)
			for range 2 {
				s.Restart(t, how)
				c = s.dial(t)
				want(t, "earliest", offsetOf(c, tp, 0, earliest), 151)
				wantEnd(c, tp, 0, 300)
				wantCode(t, "below", fetchOne(c, 12, fetchRequest(tp, 0, 150)).ErrorCode, offsetOutOfRange)
				want(t, "records", len(values(c, tp, 0, 151)), 149)
			}
		})
	}
}
