package assignor

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage"
)

// topicN is the id of the nth topic of a test.
func topicN(n int) (id storage.TopicID) {
	id[14], id[15] = byte(n>>8), byte(n)
	return id
}

// TestVectors holds the assignors against what Apache Kafka 4.4.0's own gave, which
// testdata/Vectors.java printed.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	if len(cases) < 200 {
		t.Fatalf("read %d vectors, want at least 200", len(cases))
	}
	for i, text := range cases {
		given, want, _ := strings.Cut(text, "gives\n")
		assign, g := parseVector(t, given)
		var got strings.Builder
		for j, p := range assign(g) {
			fmt.Fprintf(&got, "%s%s\n", g.Members[j].ID, format(p))
		}
		if got, want := strings.TrimSpace(got.String()), strings.TrimSpace(want); got != want {
			t.Errorf("vector %d:\n%sgot\n%s\nwant\n%s", i, given, got, want)
		}
	}
}

// An assignment that a client made, or that another version has written, may name what
// there is not.
func TestPartitionsThatDoNotExistAreNotKept(t *testing.T) {
	for _, name := range []string{"uniform", "range"} {
		for _, same := range []bool{true, false} {
			assign, _ := ByName(name)
			g := &Group{SameTopics: same, Partitions: map[storage.TopicID]int32{topicN(1): 2}, Members: []Member{
				{ID: "a", Topics: []storage.TopicID{topicN(1)}, Assigned: Partitions{topicN(1): {-1 << 31, -1, 1, 2, 1<<31 - 1}, topicN(2): {-1, 0}}},
			}}
			if got, want := assign(g)[0], (Partitions{topicN(1): {0, 1}}); !got.Equal(want) {
				t.Errorf("%s, same topics %v: got %v, want %v", name, same, got, want)
			}
		}
	}
}

func parseVector(t *testing.T, text string) (Func, *Group) {
	t.Helper()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%q in %s: %v", s, text, err)
		}
		return n
	}
	g := &Group{Partitions: map[storage.TopicID]int32{}}
	var assign Func
	lines := bufio.NewScanner(strings.NewReader(text))
	for i := 0; lines.Scan(); i++ {
		f := strings.Fields(lines.Text())
		switch i {
		case 0:
			assign, _ = ByName(f[0])
			g.SameTopics = f[1] == "same"
		case 1:
			for _, s := range f[1:] {
				n, count, _ := strings.Cut(s, ":")
				g.Partitions[topicN(number(n))] = int32(number(count))
			}
		default:
			m := Member{ID: f[0], Assigned: Partitions{}}
			if f[1] != "-" {
				m.InstanceID = f[1]
			}
			if f[2] != "-" {
				for s := range strings.SplitSeq(f[2], ",") {
					m.Topics = append(m.Topics, topicN(number(s)))
				}
			}
			for _, s := range f[3:] {
				n, list, _ := strings.Cut(s, ":")
				for p := range strings.SplitSeq(list, ",") {
					id := topicN(number(n))
					m.Assigned[id] = append(m.Assigned[id], int32(number(p)))
				}
			}
			g.Members = append(g.Members, m)
		}
	}
	return assign, g
}

// format writes partitions as the vectors do.
func format(p Partitions) string {
	var b strings.Builder
	for _, t := range p.Topics() {
		fmt.Fprintf(&b, " %d:", int(t[14])<<8|int(t[15]))
		for i, n := range p[t] {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, n)
		}
	}
	return b.String()
}

// TestEveryPartitionHasOneOwner goes through random lives of random groups and checks
// after each change that every partition of a topic with subscribers has one owner,
// who is subscribed to it; and for members with the same topics that nobody has two
// more than another, and that no more moves than balance asks for.
func TestEveryPartitionHasOneOwner(t *testing.T) {
	for _, name := range []string{"uniform", "range"} {
		assign, _ := ByName(name)
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 848))
			g := randomGroup(r)
			for turn := range 8 {
				got := assign(g)
				what := fmt.Sprintf("%s, seed %d, turn %d", name, seed, turn)
				checkOwners(t, what, g, got)
				if name == "uniform" {
					checkSticky(t, what, g, got)
				}
				for i := range g.Members {
					g.Members[i].Assigned = got[i]
				}
				changeGroup(r, g)
			}
		}
	}
}

func randomGroup(r *rand.Rand) *Group {
	g := &Group{SameTopics: r.IntN(2) == 0, Partitions: map[storage.TopicID]int32{}}
	for n := range 1 + r.IntN(6) {
		g.Partitions[topicN(n)] = 1 + r.Int32N(20)
	}
	for range 1 + r.IntN(8) {
		addMember(r, g)
	}
	return g
}

func addMember(r *rand.Rand, g *Group) {
	m := Member{ID: fmt.Sprintf("m%04d", r.IntN(10000))}
	i, found := slices.BinarySearchFunc(g.Members, m.ID, func(m Member, id string) int { return strings.Compare(m.ID, id) })
	if found {
		return
	}
	for _, id := range slices.SortedFunc(maps.Keys(g.Partitions), compareIDs) {
		if g.SameTopics || r.IntN(3) > 0 {
			m.Topics = append(m.Topics, id)
		}
	}
	g.Members = slices.Insert(g.Members, i, m)
}

func changeGroup(r *rand.Rand, g *Group) {
	switch i := r.IntN(len(g.Members)); r.IntN(4) {
	case 0, 1:
		addMember(r, g)
	case 2:
		if len(g.Members) > 1 {
			g.Members = slices.Delete(g.Members, i, i+1)
		}
	case 3:
		g.Partitions[topicN(0)] += r.Int32N(4)
	}
}

func checkOwners(t *testing.T, what string, g *Group, got []Partitions) {
	t.Helper()
	owner := map[topicPartition]string{}
	for i, p := range got {
		for id, list := range p {
			if !slices.Contains(g.Members[i].Topics, id) {
				t.Errorf("%s: %s has partitions of topic %v, which it is not subscribed to", what, g.Members[i].ID, id)
			}
			for _, n := range list {
				if other, ok := owner[topicPartition{id, n}]; ok {
					t.Errorf("%s: partition %d of %v has two owners, %s and %s", what, n, id, other, g.Members[i].ID)
				}
				owner[topicPartition{id, n}] = g.Members[i].ID
			}
		}
	}
	for id, count := range g.Partitions {
		if !slices.ContainsFunc(g.Members, func(m Member) bool { return slices.Contains(m.Topics, id) }) {
			continue
		}
		for n := range count {
			if owner[topicPartition{id, n}] == "" {
				t.Errorf("%s: partition %d of %v has no owner", what, n, id)
			}
		}
	}
}

// checkSticky counts, for members with the same topics, what they keep: balance lets
// each keep what it is due.
func checkSticky(t *testing.T, what string, g *Group, got []Partitions) {
	t.Helper()
	if !g.SameTopics {
		return
	}
	total := 0
	for _, p := range got {
		total += p.Count()
	}
	each, more := total/len(got), total%len(got)
	kept, best := 0, 0
	for i, p := range got {
		if n := p.Count(); n != each && n != each+1 {
			t.Errorf("%s: %s has %d partitions, want %d or one more", what, g.Members[i].ID, n, each)
		}
		for id, list := range p {
			for _, n := range list {
				if slices.Contains(g.Members[i].Assigned[id], n) {
					kept++
				}
			}
		}
		best += min(g.Members[i].Assigned.Count(), each)
		if g.Members[i].Assigned.Count() > each && more > 0 {
			best++
			more--
		}
	}
	if kept < best {
		t.Errorf("%s: members keep %d partitions, could keep %d", what, kept, best)
	}
}

func BenchmarkUniform(b *testing.B) {
	for _, members := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("members=%d/partitions=%d", members, 10*members), func(b *testing.B) {
			g := &Group{SameTopics: true, Partitions: map[storage.TopicID]int32{topicN(1): int32(10 * members)}}
			for i := range members {
				g.Members = append(g.Members, Member{ID: fmt.Sprintf("m%04d", i), Topics: []storage.TopicID{topicN(1)}})
			}
			b.ReportAllocs()
			for b.Loop() {
				Uniform(g)
			}
		})
	}
}
