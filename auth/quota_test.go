package auth

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var (
	asKafka = QuotaWindows{Windows: 11, Size: time.Second}
	start   = time.UnixMilli(1_700_000_000_000)
)

func quotasOf(kind QuotaKind, bounds map[QuotaScope]float64) *Quotas {
	q := NewQuotas(asKafka, QuotaWindows{Windows: 10, Size: time.Second})
	q.Set(kind, bounds)
	return q
}

// The numbers are those of Kafka's own tests: ClientQuotaManagerTest.testQuotaViolation.
func TestRateThrottlesAsKafka(t *testing.T) {
	q := quotasOf(ProduceQuota, map[QuotaScope]float64{{OfClientID: true}: 500})
	now := start
	for range 10 {
		if got := q.Charge(ProduceQuota, "ANONYMOUS", "unknown", 400, now); got != 0 {
			t.Fatalf("400 bytes a second of 500 are throttled for %v", got)
		}
		now = now.Add(time.Second)
	}
	now = now.Add(500 * time.Millisecond)
	// (10*400 + 2300) bytes in 10.5 seconds are 600 a second; (600-500)/500 of 10.5 seconds bring it back.
	if got := q.Charge(ProduceQuota, "ANONYMOUS", "unknown", 2300, now); got != 2100*time.Millisecond {
		t.Errorf("after the burst the throttle is %v, want 2.1s", got)
	}
	now = now.Add(2100 * time.Millisecond)
	for range 10 {
		q.Charge(ProduceQuota, "ANONYMOUS", "unknown", 400, now)
		now = now.Add(time.Second)
	}
	if got := q.Charge(ProduceQuota, "ANONYMOUS", "unknown", 0, now); got != 0 {
		t.Errorf("when the burst has left the windows the throttle is %v, want none", got)
	}
}

// ClientRequestQuotaManagerTest.testRequestPercentageQuotaViolation.
func TestRequestTimeThrottlesForAWindowAtMost(t *testing.T) {
	percent := func(ms float64) float64 { return ms * 100 / 1000 }
	q := quotasOf(RequestQuota, map[QuotaScope]float64{{true, true, "ANONYMOUS", "test"}: 1})
	now := start
	for range 10 {
		if got := q.Charge(RequestQuota, "ANONYMOUS", "test", percent(4), now); got != 0 {
			t.Fatalf("4 ms a second of 10 are throttled for %v", got)
		}
		now = now.Add(time.Second)
	}
	now = now.Add(500 * time.Millisecond)
	if got := q.Charge(RequestQuota, "ANONYMOUS", "test", percent(67.1), now); got != 210*time.Millisecond {
		t.Errorf("after the burst the throttle is %v, want 210ms", got)
	}
	now = now.Add(210 * time.Millisecond)
	for range 11 {
		q.Charge(RequestQuota, "ANONYMOUS", "test", percent(4), now)
		now = now.Add(time.Second)
	}
	if got := q.Charge(RequestQuota, "ANONYMOUS", "test", 0, now); got != 0 {
		t.Errorf("when the burst has left the windows the throttle is %v, want none", got)
	}
	if got := q.Charge(RequestQuota, "ANONYMOUS", "test", percent(500), now); got != time.Second {
		t.Errorf("after a burst for many windows the throttle is %v, want that of one", got)
	}
	for i := range 10 {
		now = now.Add(time.Second)
		if got := q.Charge(RequestQuota, "ANONYMOUS", "test", 0, now); got != time.Second {
			t.Errorf("%d s after it the throttle is %v, want 1s", i+1, got)
		}
	}
	now = now.Add(time.Second)
	if got := q.Charge(RequestQuota, "ANONYMOUS", "test", 0, now); got != 0 {
		t.Errorf("when it has left the windows the throttle is %v, want none", got)
	}
}

// StrictControllerMutationQuotaTest and PermissiveControllerMutationQuotaTest.
func TestMutationsThrottleAsKafka(t *testing.T) {
	for _, strict := range []bool{true, false} {
		q := quotasOf(MutationQuota, map[QuotaScope]float64{{OfUser: true, User: "u"}: 10})
		m := q.Mutations("u", "c", strict)
		now := start
		for i, want := range []struct {
			taken bool
			wait  time.Duration
		}{
			{true, 0},
			{true, map[bool]time.Duration{true: 0, false: 8 * time.Second}[strict]},
			{!strict, map[bool]time.Duration{true: 8 * time.Second, false: 17 * time.Second}[strict]},
		} {
			if got := m.Take(90, now); got != want.taken {
				t.Errorf("strict %v: take %d is %v, want %v", strict, i+1, got, want.taken)
			}
			if got := m.Throttle(now); got != want.wait {
				t.Errorf("strict %v: after take %d the throttle is %v, want %v", strict, i+1, got, want.wait)
			}
		}
		later := map[bool]time.Duration{true: 3 * time.Second, false: 12 * time.Second}[strict]
		if got := m.Throttle(now.Add(5 * time.Second)); got != later {
			t.Errorf("strict %v: 5 s later the throttle is %v, want %v", strict, got, later)
		}
		if got := m.Throttle(now.Add(time.Hour)); got != 0 {
			t.Errorf("strict %v: an hour later the throttle is %v, want none", strict, got)
		}
	}
}

// ControllerMutationQuotaManagerTest.testControllerMutationQuotaViolation.
func TestStrictMutationsOweOnlyWhatTheyTook(t *testing.T) {
	q := quotasOf(MutationQuota, map[QuotaScope]float64{{true, true, "u", "c"}: 10})
	take := func(n int, now time.Time) (bool, time.Duration) {
		m := q.Mutations("u", "c", true)
		ok := m.Take(n, now)
		return ok, m.Throttle(now)
	}
	now := start
	for range 10 {
		if ok, wait := take(10, now); !ok || wait != 0 {
			t.Fatalf("10 a second of 10 are taken %v, throttle %v", ok, wait)
		}
		now = now.Add(time.Second)
	}
	if ok, wait := take(110, now); !ok || wait != 0 {
		t.Errorf("110 of 100 tokens are taken %v, throttle %v, want true and none", ok, wait)
	}
	if ok, wait := take(110, now); ok || wait != time.Second {
		t.Errorf("with 10 tokens owed 110 are taken %v, throttle %v, want false and 1s", ok, wait)
	}
	now = now.Add(time.Second)
	if ok, wait := take(110, now); !ok || wait != 0 {
		t.Errorf("with nothing owed 110 are taken %v, throttle %v, want true and none", ok, wait)
	}
}

func TestMostSpecificQuotaCounts(t *testing.T) {
	order := []QuotaScope{ // from the most specific on
		{true, true, "ann", "app"},
		{true, true, "ann", ""},
		{true, false, "ann", ""},
		{true, true, "", "app"},
		{true, true, "", ""},
		{true, false, "", ""},
		{false, true, "", "app"},
		{false, true, "", ""},
	}
	for from := range order {
		bounds := map[QuotaScope]float64{{true, true, "bob", "app"}: 1, {true, false, "bob", ""}: 2, {false, true, "", "other"}: 3}
		for i := from; i < len(order); i++ {
			bounds[order[i]] = float64(100 + i)
		}
		q := quotasOf(FetchQuota, bounds)
		if got, ok := q.Most(FetchQuota, "ann", "app"); !ok || got != float64(100+from)*10 {
			t.Errorf("with %v and what is less specific the bound is %v, %v, want %v", order[from], got, ok, (100+from)*10)
		}
		if wait := q.Charge(FetchQuota, "ann", "app", float64(100+from)*10, start); wait != 0 {
			t.Errorf("with %v ten seconds' worth is throttled for %v", order[from], wait)
		}
		if wait := q.Charge(FetchQuota, "ann", "app", float64(100+from), start); wait != time.Second {
			t.Errorf("with %v another second's worth is throttled for %v, want 1s", order[from], wait)
		}
		shares := order[from].OfUser && !order[from].OfClientID
		if wait := q.Charge(FetchQuota, "ann", "app2", 1, start); from < 1 && wait != 0 || shares && wait == 0 {
			t.Errorf("with %v another client of the user is throttled for %v, shares the quota %v", order[from], wait, shares)
		}
	}
	q := quotasOf(FetchQuota, map[QuotaScope]float64{{true, true, "bob", "app"}: 1, {true, true, "", "x"}: 1})
	if got, ok := q.Most(FetchQuota, "ann", "app"); ok {
		t.Errorf("a client without a quota has the bound %v", got)
	}
}

func TestQuotaOfADefaultIsEachClientsOwn(t *testing.T) {
	q := quotasOf(ProduceQuota, map[QuotaScope]float64{{OfClientID: true}: 100})
	if wait := q.Charge(ProduceQuota, "u", "a", 1100, start); wait != time.Second {
		t.Errorf("1,100 bytes of 1,000 are throttled for %v, want 1s", wait)
	}
	if wait := q.Charge(ProduceQuota, "u", "b", 1000, start); wait != 0 {
		t.Errorf("another client is throttled for %v", wait)
	}
	if wait := q.Charge(ProduceQuota, "another", "a", 0, start); wait != time.Second {
		t.Errorf("another user with the client id is throttled for %v, want 1s", wait)
	}
	if _, ok := q.Most(ProduceQuota, "u", ""); ok {
		t.Error("a client without an id has a quota of client ids")
	}
}

func TestRefundTakesAChargeBack(t *testing.T) {
	q := quotasOf(FetchQuota, map[QuotaScope]float64{{OfUser: true}: 100})
	if wait := q.Charge(FetchQuota, "u", "", 5000, start); wait != 40*time.Second {
		t.Errorf("5,000 bytes of 1,000 are throttled for %v, want 40s", wait)
	}
	q.Refund(FetchQuota, "u", "", 5000, start)
	if wait := q.Charge(FetchQuota, "u", "", 1000, start); wait != 0 {
		t.Errorf("after the refund 1,000 bytes are throttled for %v", wait)
	}
}

func TestChangedQuotaCountsWhatWasUsed(t *testing.T) {
	q := quotasOf(ProduceQuota, map[QuotaScope]float64{{OfUser: true, User: "u"}: 100})
	q.Charge(ProduceQuota, "u", "c", 1000, start)
	q.Set(ProduceQuota, map[QuotaScope]float64{{OfUser: true, User: "u"}: 50})
	if wait := q.Charge(ProduceQuota, "u", "c", 0, start); wait != 10*time.Second {
		t.Errorf("with half the quota the throttle is %v, want 10s", wait)
	}
	q.Set(ProduceQuota, nil)
	if wait := q.Charge(ProduceQuota, "u", "c", 1e12, start); wait != 0 || q.Any(ProduceQuota) {
		t.Errorf("without a quota the throttle is %v", wait)
	}
}

func TestLongestThrottleTimeFitsTheProtocol(t *testing.T) {
	q := quotasOf(ProduceQuota, map[QuotaScope]float64{{OfUser: true}: 0.001})
	if wait := q.Charge(ProduceQuota, "u", "c", 1e15, start); wait != (1<<31-1)*time.Millisecond {
		t.Errorf("the throttle is %v, want the longest there is", wait)
	}
}

func TestLargestWindowsDoNotOverflow(t *testing.T) {
	largest := QuotaWindows{Windows: 1<<31 - 1, Size: (1<<31 - 1) * time.Second}
	q := NewQuotas(largest, largest)
	q.Set(ProduceQuota, map[QuotaScope]float64{{OfUser: true}: 1})
	if wait := q.Charge(ProduceQuota, "u", "c", 1e6, start); wait != 0 {
		t.Errorf("1 MB of a byte a second over ages is throttled for %v", wait)
	}
	if wait := q.Charge(ProduceQuota, "u", "c", 1e20, start); wait <= 0 {
		t.Errorf("more than all ages allow is throttled for %v", wait)
	}
}

func TestMetersAreBounded(t *testing.T) {
	q := quotasOf(ProduceQuota, map[QuotaScope]float64{{OfClientID: true}: 100})
	u := &q.used[ProduceQuota]
	for i := range MaxMeters + 100 {
		q.Charge(ProduceQuota, "u", fmt.Sprint(i), 1, start)
	}
	if n := len(u.meters); n != MaxMeters {
		t.Errorf("%d meters, want %d", n, MaxMeters)
	}
	// Those that say nothing any more are the first to go.
	now := start.Add(11 * time.Second)
	q.Charge(ProduceQuota, "u", "new", 1100, now)
	if n := len(u.meters); n != 1 {
		t.Errorf("%d meters when all others are idle, want 1", n)
	}
	long := strings.Repeat("n", 32<<10)
	for i := range 1000 {
		q.Charge(ProduceQuota, "u", fmt.Sprint(i, long), 1, now)
	}
	names := 0
	for k := range u.meters {
		names += len(k.user) + len(k.clientID)
	}
	if names != u.names || names > MaxMeterNames || names < MaxMeterNames/2 {
		t.Errorf("%d bytes of names, counted are %d, want up to %d", names, u.names, MaxMeterNames)
	}
}

// Ever new names do not have all meters looked at for each, and those that are idle are found in the next window.
func TestTooManyMetersAreLookedAtOnceAWindow(t *testing.T) {
	q := quotasOf(ProduceQuota, map[QuotaScope]float64{{OfClientID: true}: 100})
	u := &q.used[ProduceQuota]
	charge := func(i int, now time.Time) { q.Charge(ProduceQuota, "u", fmt.Sprint(i), 1, now) }
	for i := range MaxMeters {
		charge(i, start)
	}
	full := start.Add(10500 * time.Millisecond)
	charge(MaxMeters, full)
	if u.swept != full.UnixMilli() {
		t.Errorf("idle meters were looked for at %d, want %d", u.swept, full.UnixMilli())
	}
	for i := range 100 {
		charge(2*MaxMeters+i, full.Add(999*time.Millisecond)) // the first ones are idle, and nobody looks
	}
	if n := len(u.meters); u.swept != full.UnixMilli() || n != MaxMeters {
		t.Errorf("idle meters were looked for at %d, %d are left; want %d and %d", u.swept, n, full.UnixMilli(), MaxMeters)
	}
	charge(3*MaxMeters, full.Add(time.Second))
	if n := len(u.meters); n > 102 {
		t.Errorf("%d meters in the next window, want those of the last one", n)
	}
}

func TestQuotasDoNotAllocate(t *testing.T) {
	q := quotasOf(ProduceQuota, map[QuotaScope]float64{{OfClientID: true}: 1e9, {OfUser: true}: 1e9, {true, true, "x", "y"}: 1})
	now := start
	use := func() {
		now = now.Add(300 * time.Millisecond)
		q.Charge(ProduceQuota, "user", "client", 10, now)
		q.Most(ProduceQuota, "user", "client")
		q.Charge(FetchQuota, "user", "client", 10, now)
	}
	for range 100 {
		use()
	}
	if n := testing.AllocsPerRun(1000, use); n != 0 {
		t.Errorf("%v allocations for a request, want none", n)
	}
}

func TestConnectionsFromAnAddress(t *testing.T) {
	q := NewConnectionQuotas(asKafka)
	a, b, mapped := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("::ffff:10.0.0.1")
	for range 100 {
		if wait := q.Accept(a, start); wait != 0 {
			t.Fatalf("without a quota a connection is throttled for %v", wait)
		}
	}
	q.Set(map[netip.Addr]int32{a: 2}, 1)
	for i, from := range []netip.Addr{a, mapped} {
		for range 10 {
			if wait := q.Accept(from, start); wait != 0 {
				t.Fatalf("address %d: within ten seconds' worth a connection is throttled for %v", i, wait)
			}
		}
	}
	for range 3 { // those that are turned away do not count
		if wait := q.Accept(a, start); wait != 500*time.Millisecond {
			t.Errorf("the 21st connection is throttled for %v, want 500ms", wait)
		}
	}
	for range 10 {
		q.Accept(b, start)
	}
	if wait := q.Accept(b, start); wait != time.Second {
		t.Errorf("the 11th connection of an address without a quota of its own is throttled for %v, want 1s", wait)
	}
	if wait := q.Accept(a, start.Add(12*time.Second)); wait != 0 {
		t.Errorf("12 s later a connection is throttled for %v", wait)
	}
	for range 20 {
		if wait := q.AcceptAny(2, start); wait != 0 {
			t.Fatalf("within ten seconds' worth of all a connection waits for %v", wait)
		}
	}
	if wait := q.AcceptAny(2, start); wait != 500*time.Millisecond {
		t.Errorf("the 21st connection of all waits for %v, want 500ms", wait)
	}
	q.TurnAway(start)
	q.TurnAway(start)
	if wait := q.AcceptAny(2, start); wait != 0 {
		t.Errorf("when two were turned away a connection waits for %v", wait)
	}
	for range 100 {
		q.AcceptAny(2, start)
	}
	if wait := q.AcceptAny(2, start); wait != time.Second {
		t.Errorf("a connection waits for %v, want a window at most", wait)
	}
	q.Set(nil, 0)
	if q.Any() {
		t.Error("there is a quota when all are taken away")
	}
}

// TestEndlessQuotaRefusesNothing takes partitions twice at one time, with a quota that Kafka's tools set as Infinity.
func TestEndlessQuotaRefusesNothing(t *testing.T) {
	for _, strict := range []bool{true, false} {
		q := quotasOf(MutationQuota, map[QuotaScope]float64{{OfUser: true, User: "alice"}: math.Inf(1)})
		for i := range 3 {
			m := q.Mutations("alice", "c", strict)
			if !m.Take(5, start) {
				t.Errorf("strict %v, request %d: refused", strict, i)
			}
			if wait := m.Throttle(start.Add(time.Millisecond)); wait != 0 {
				t.Errorf("strict %v, request %d: rests for %v", strict, i, wait)
			}
		}
	}
}
