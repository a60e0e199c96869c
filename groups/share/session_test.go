package share

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func (w *world) open(member string, conn any, partitions ...int32) error {
	return w.st.OpenSession("g", member, conn, w.partitions(partitions))
}

func (w *world) partitions(list []int32) (out []TopicPartition) {
	for _, p := range list {
		out = append(out, TopicPartition{w.topic.ID(), p, "orders"})
	}
	return out
}

// use returns the partitions of a session, or the error, as text.
func (w *world) use(member string, epoch int32, add, forget []int32) string {
	got, err := w.st.UseSession("g", member, epoch, w.partitions(add), w.partitions(forget))
	for _, known := range []error{ErrSessionNotFound, ErrSessionEpoch, ErrSessionLimit} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	var out []string
	for _, p := range got {
		out = append(out, fmt.Sprint(p.Partition))
	}
	return strings.Join(out, " ")
}

func TestASessionKnowsItsPartitionsAndCountsRequests(t *testing.T) {
	w := newWorld(t, Config{MaxSessions: 2})
	w.want("without a session", w.use("a", 1, nil, nil), ErrSessionNotFound.Error())
	if err := w.open("a", 1, 0, 0); err != nil {
		t.Fatal(err)
	}
	w.want("next", w.use("a", 1, nil, nil), "0")
	w.want("the same again", w.use("a", 1, nil, nil), ErrSessionEpoch.Error())
	w.want("more", w.use("a", 2, []int32{1}, nil), "0 1")
	w.want("fewer", w.use("a", 3, nil, []int32{0}), "1")
	if err := w.st.StepSession("g", "a", 4); err != nil {
		t.Error(err)
	}
	if err := w.st.StepSession("g", "a", 4); !errors.Is(err, ErrSessionEpoch) {
		t.Errorf("an acknowledgement of an old epoch: got %v, want %v", err, ErrSessionEpoch)
	}
	if err := w.st.StepSession("g", "a", EpochOpen); !errors.Is(err, ErrSessionEpoch) {
		t.Errorf("an acknowledgement that opens: got %v, want %v", err, ErrSessionEpoch)
	}
	if err := w.open("b", 2); err != nil {
		t.Fatal(err)
	}
	if err := w.open("c", 3); !errors.Is(err, ErrSessionLimit) {
		t.Errorf("one session too many: got %v, want %v", err, ErrSessionLimit)
	}
	if err := w.open("a", 3, 1); err != nil {
		t.Errorf("a session anew: %v", err)
	}
	w.want("begins again", w.use("a", 1, nil, nil), "1")
	if err := w.st.CloseSession("g", "a"); err != nil {
		t.Error(err)
	}
	if err := w.st.CloseSession("g", "a"); !errors.Is(err, ErrSessionNotFound) {
		t.Errorf("close again: got %v, want %v", err, ErrSessionNotFound)
	}
	if got := nextEpoch(math.MaxInt32); got != 1 {
		t.Errorf("after the last epoch comes %d, want 1", got)
	}
}

// A partition without news is only told of when it is new, or had an error.
func TestASessionTellsOfNews(t *testing.T) {
	w := newWorld(t, Config{})
	if err := w.open("a", 1, 0); err != nil {
		t.Fatal(err)
	}
	tell := func(epoch int32, records, failed bool) string {
		t.Helper()
		w.use("a", epoch, []int32{1}, nil)
		p := w.partitions([]int32{0, 1})
		must, err := w.st.TellSession("g", "a", epoch, []Told{{TopicPartition: p[0]}, {p[1], records, failed}})
		return fmt.Sprint(must, err != nil)
	}
	w.want("new", tell(1, false, false), "[false true] false")
	w.want("no news", tell(2, false, false), "[false false] false")
	w.want("failed", tell(3, false, true), "[false true] false")
	w.want("after it", tell(4, false, false), "[false true] false")
	w.want("no news again", tell(5, false, false), "[false false] false")
	w.want("records", tell(6, true, false), "[false true] false")
	if err := w.st.StepSession("g", "a", 7); err != nil {
		t.Fatal(err)
	}
	w.want("overtaken", tell(6, true, false), "[] true")
}

// Partitions that brought records come last the next time.
func TestASessionServesInTurns(t *testing.T) {
	w := newWorld(t, Config{})
	if err := w.open("a", 1, 3, 1, 2); err != nil {
		t.Fatal(err)
	}
	w.want("as they came", w.use("a", 1, nil, nil), "3 1 2")
	p := w.partitions([]int32{3, 1})
	if _, err := w.st.TellSession("g", "a", 1, []Told{{p[0], true, false}, {p[1], false, true}}); err != nil {
		t.Fatal(err)
	}
	w.want("after records of 3", w.use("a", 2, []int32{4}, []int32{1}), "2 3 4")
	w.want("forgotten and back", w.use("a", 3, []int32{1, 2}, nil), "2 3 4 1")
}

// What one request may name must not keep the sessions of others: it takes no time that
// grows with the square.
func TestASessionOfManyPartitionsIsNoWork(t *testing.T) {
	w := newWorld(t, Config{})
	many := make([]int32, 200_000)
	for i := range many {
		many[i] = int32(i)
	}
	if err := w.open("a", 1, many...); err != nil {
		t.Fatal(err)
	}
	list, err := w.st.UseSession("g", "a", 1, w.partitions(many), nil)
	if err != nil || len(list) != len(many) || list[len(many)-1].Partition != many[len(many)-1] {
		t.Errorf("got %d partitions and %v, want %d in the order they came", len(list), err, len(many))
	}
	if list, err = w.st.UseSession("g", "a", 2, nil, w.partitions(many)); err != nil || len(list) != 0 {
		t.Errorf("got %d partitions and %v, want none once all are forgotten", len(list), err)
	}
}

// Sessions together want so many partitions and no more, whether they exist or not.
func TestSessionsShareABoundOfPartitions(t *testing.T) {
	w := newWorld(t, Config{})
	w.st.sessions.room = 5
	if err := w.open("a", 1, 0, 1, 2); err != nil {
		t.Fatal(err)
	}
	if err := w.open("b", 2, 0, 1, 2); !errors.Is(err, ErrSessionLimit) {
		t.Errorf("a session for which there is no room: got %v, want %v", err, ErrSessionLimit)
	}
	if err := w.open("b", 2, 0, 1); err != nil {
		t.Errorf("a session for which there is just room: %v", err)
	}
	w.want("one that has no room to grow", w.use("a", 1, []int32{2, 3}, nil), ErrSessionLimit.Error())
	w.want("it stays as it was", w.use("a", 1, []int32{2}, []int32{1, 1, 9}), "0 2")
	w.want("then there is room", w.use("a", 2, []int32{3}, nil), "0 2 3")
	if err := w.st.CloseSession("g", "b"); err != nil {
		t.Fatal(err)
	}
	if err := w.open("a", 1, 0, 1, 2, 3, 4); err != nil {
		t.Errorf("a session in the place of another: %v", err)
	}
}

// A session that ends gives its records back; with the group's last, the broker forgets
// deliveries that were not stored.
func TestASessionDiesWithItsConnection(t *testing.T) {
	w := newWorld(t, Config{})
	w.produce(0, 4)
	w.initialize(0, 0)
	for conn, member := range []string{"a", "b"} {
		if err := w.open(member, conn, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.want("a", w.fetch(w.request("a", 0)), "0:0-3×1")
	w.st.Disconnected(0)
	w.st.topic.Waits().Wait()
	w.want("session of a", w.use("a", 1, nil, nil), ErrSessionNotFound.Error())
	w.want("b", w.fetch(w.request("b", 0)), "0:0-3×2")
	w.st.Disconnected(1)
	w.st.topic.Waits().Wait()
	w.want("c", w.fetch(w.request("c", 0)), "0:0-3×3")

	// A session that was begun anew elsewhere outlives its first connection.
	for conn := range 2 {
		if err := w.open("c", conn, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.st.Disconnected(0)
	w.want("c", w.use("c", 1, nil, nil), "0")
	w.st.Disconnected(7) // had none
}
