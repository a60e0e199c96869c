package storage

import (
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestLeaderEpochsAssign(t *testing.T) {
	for _, c := range []struct {
		name    string
		prior   leaderEpochs
		epoch   int32
		start   int64
		want    leaderEpochs
		changed bool
	}{
		{"first", nil, 0, 0, leaderEpochs{{0, 0}}, true},
		{"same epoch", leaderEpochs{{0, 0}}, 0, 50, leaderEpochs{{0, 0}}, false},
		{"next epoch", leaderEpochs{{0, 0}}, 1, 50, leaderEpochs{{0, 0}, {1, 50}}, true},
		{"epoch without records is replaced", leaderEpochs{{0, 0}, {1, 50}}, 4, 50, leaderEpochs{{0, 0}, {4, 50}}, true},
		{"epoch goes back", leaderEpochs{{0, 0}, {3, 50}, {4, 60}}, 3, 70, leaderEpochs{{0, 0}, {3, 70}}, true},
		{"offset goes back", leaderEpochs{{0, 0}, {3, 50}, {4, 60}}, 5, 40, leaderEpochs{{0, 0}, {5, 40}}, true},
		{"same epoch begins earlier", leaderEpochs{{0, 0}, {3, 50}}, 3, 40, leaderEpochs{{0, 0}, {3, 40}}, true},
		{"no epoch", leaderEpochs{{0, 0}}, -1, 40, leaderEpochs{{0, 0}}, false},
	} {
		prior := slices.Clone(c.prior)
		got, changed := c.prior.assign(c.epoch, c.start)
		if !slices.Equal(got, c.want) || changed != c.changed || !slices.Equal(c.prior, prior) {
			t.Errorf("%s: %v.assign(%d, %d) = %v, %t, want %v, %t; the receiver is now %v", c.name, prior, c.epoch, c.start, got, changed, c.want, c.changed, c.prior)
		}
	}
}

func TestLeaderEpochsKeepWhatReadersHold(t *testing.T) {
	l := make(leaderEpochs, 0, 8)
	l, _ = l.assign(0, 0)
	l, _ = l.assign(1, 10)
	held := l
	cut, changed := l.truncateFromEnd(10)
	if !changed || !slices.Equal(cut, leaderEpochs{{0, 0}}) {
		t.Fatalf("truncateFromEnd(10) = %v, %t", cut, changed)
	}
	cut.assign(7, 20)
	l.assign(2, 20)
	if !slices.Equal(held, leaderEpochs{{0, 0}, {1, 10}}) {
		t.Errorf("epochs that a reader holds became %v", held)
	}
}

func TestLeaderEpochsTruncate(t *testing.T) {
	l := leaderEpochs{{2, 10}, {4, 20}, {5, 30}}
	for _, c := range []struct {
		at      int64
		want    leaderEpochs
		changed bool
	}{
		{31, l, false}, {30, l[:2], true}, {20, l[:1], true}, {0, nil, true},
	} {
		if got, changed := l.truncateFromEnd(c.at); !slices.Equal(got, c.want) || changed != c.changed {
			t.Errorf("truncateFromEnd(%d) = %v, %t, want %v, %t", c.at, got, changed, c.want, c.changed)
		}
	}
	for _, c := range []struct {
		at      int64
		want    leaderEpochs
		changed bool
	}{
		{5, l, false}, {10, l, false}, {15, leaderEpochs{{2, 15}, {4, 20}, {5, 30}}, true},
		{20, leaderEpochs{{4, 20}, {5, 30}}, true}, {100, leaderEpochs{{5, 100}}, true},
	} {
		if got, changed := l.truncateFromStart(c.at); !slices.Equal(got, c.want) || changed != c.changed {
			t.Errorf("truncateFromStart(%d) = %v, %t, want %v, %t", c.at, got, changed, c.want, c.changed)
		}
	}
}

func TestLeaderEpochsAnswer(t *testing.T) {
	l := leaderEpochs{{2, 10}, {4, 20}, {7, 30}}
	for _, c := range []struct {
		asked  int32
		epoch  int32
		offset int64
	}{
		{-1, -1, -1}, {0, 0, 10}, {1, 1, 10}, {2, 2, 20}, {3, 2, 20}, {4, 4, 30}, {6, 4, 30}, {7, 7, 99}, {8, -1, -1},
	} {
		if epoch, offset := l.endOffset(c.asked, 99); epoch != c.epoch || offset != c.offset {
			t.Errorf("endOffset(%d) = %d, %d, want %d, %d", c.asked, epoch, offset, c.epoch, c.offset)
		}
	}
	var none leaderEpochs
	if epoch, offset := none.endOffset(0, 99); epoch != -1 || offset != -1 {
		t.Errorf("endOffset(0) without epochs = %d, %d, want -1, -1", epoch, offset)
	}
	if _, ok := none.earliest(); ok || none.latest() != -1 {
		t.Errorf("no epochs: earliest %t, latest %d", ok, none.latest())
	}
}

func TestLeaderEpochFile(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	if err := mem.MkdirAll("orders-0"); err != nil {
		t.Fatal(err)
	}
	if l, err := readLeaderEpochs(mem, "orders-0"); err != nil || l != nil {
		t.Errorf("without a file: %v, %v", l, err)
	}
	want := leaderEpochs{{0, 0}, {5, 1 << 40}}
	if err := writeLeaderEpochs(mem, "orders-0", want); err != nil {
		t.Fatal(err)
	}
	b, err := readFile(mem, "orders-0/leader-epoch-checkpoint")
	if err != nil || string(b) != "0\n2\n0 0\n5 1099511627776\n" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if got, err := readLeaderEpochs(mem, "orders-0"); err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
	for text, want := range map[string]string{
		"0\n1\n0 0 0\n":      `line 3: "0 0 0", want epoch and start offset`,
		"0\n1\n0\n":          `line 3: "0", want epoch and start offset`,
		"0\n1\n-1 0\n":       `line 3: epoch "-1"`,
		"0\n1\n1 -5\n":       `line 3: start offset "-5"`,
		"0\n2\n1 0\n1 5\n":   "line 4: epoch 1 from offset 5 after epoch 1 from offset 0",
		"0\n2\n1 10\n2 5\n":  "line 4: epoch 2 from offset 5 after epoch 1 from offset 10",
		"0\n2\n1 10\n":       "1 lines, the file announces 2",
		"0\n1\n4294967296 0": `line 3: epoch "4294967296"`,
	} {
		if _, err := DecodeLeaderEpochs([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzLeaderEpochs(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n5 1099511627776\n"))
	f.Add([]byte("0\n3\n0 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeLeaderEpochs(b)
		if err != nil {
			return
		}
		again, err := DecodeLeaderEpochs(encodeLeaderEpochs(got))
		if err != nil || !slices.Equal(got, again) {
			t.Fatalf("%q decodes to %+v, which comes back as %+v, %v", b, got, again, err)
		}
	})
}
