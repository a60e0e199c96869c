package auth

import (
	"math"
	"time"
)

// QuotaWindows says over what time a rate is measured: so many windows of a size, the one that has begun among them.
type QuotaWindows struct {
	Windows int           // quota.window.num; at least 1
	Size    time.Duration // quota.window.size.seconds; at least a second
}

// bounded returns windows whose times can be added up without a thought of overflow.
func (w QuotaWindows) bounded() QuotaWindows {
	w.Size = max(w.Size, time.Millisecond)
	w.Windows = int(min(int64(max(w.Windows, 1)), 1<<53/w.sizeMs()))
	return w
}

// sizeMs returns the size of a window in milliseconds.
func (w QuotaWindows) sizeMs() int64 { return w.Size.Milliseconds() }

// rate is an amount in a time, by windows of it. Times are milliseconds.
//
// Kafka: Rate, SampledStat, WindowedSum. A window begins with the first amount in it, not where the last one ends, and
// one that ended stays until its last amount is older than all windows together: so the oldest overlaps the beginning.
type rate struct {
	samples []sample // Windows+1 at most
	current int
}

type sample struct {
	start, last int64
	amount      float64
}

// add adds an amount, which may be below zero to take one back.
func (r *rate) add(w QuotaWindows, amount float64, now int64) {
	if len(r.samples) == 0 {
		r.samples = append(r.samples, sample{start: now, last: now})
	}
	if now-r.samples[r.current].start >= w.sizeMs() {
		r.current = (r.current + 1) % (w.Windows + 1)
		if r.current >= len(r.samples) {
			r.samples = append(r.samples, sample{})
		}
		r.samples[r.current] = sample{start: now}
	}
	s := &r.samples[r.current]
	s.amount += amount
	s.last = now
}

// measure returns the amount a second, and of which time in milliseconds: all windows but one, and what of the last has
// passed. Kafka: Rate.windowSize.
func (r *rate) measure(w QuotaWindows, now int64) (perSecond float64, windowMs int64) {
	oldest, total := now, 0.0
	for i := range r.samples {
		s := &r.samples[i]
		if now-s.last >= int64(w.Windows)*w.sizeMs() {
			*s = sample{start: now, last: now}
		}
		oldest = min(oldest, s.start)
		total += s.amount
	}
	elapsed := now - oldest
	if full := elapsed / w.sizeMs(); full < int64(w.Windows-1) {
		elapsed += (int64(w.Windows-1) - full) * w.sizeMs()
	}
	windowMs = max(elapsed, 1)
	return total / (float64(windowMs) / 1000), windowMs
}

// idle reports whether the rate is what a new one would be.
func (r *rate) idle(w QuotaWindows, now int64) bool {
	for i := range r.samples {
		if now-r.samples[i].last < int64(w.Windows)*w.sizeMs() {
			return false
		}
	}
	return true
}

// throttle returns how many milliseconds without any amount bring the rate back to the bound. Kafka:
// QuotaUtils.throttleTime.
func (r *rate) throttle(w QuotaWindows, bound float64, now int64) int64 {
	perSecond, windowMs := r.measure(w, now)
	if perSecond <= bound {
		return 0
	}
	return roundMs((perSecond - bound) / bound * float64(windowMs))
}

// bucket holds tokens that come back at a rate, as many as all windows together have at most. Times are milliseconds.
//
// Kafka: TokenBucket. One that is new is full, since its last refill was long ago.
type bucket struct {
	tokens float64
	last   int64
}

// refill adds what has come since the last time and returns the most there can be.
func (b *bucket) refill(w QuotaWindows, bound float64, now int64) (burst float64) {
	burst = float64(w.Windows) * w.Size.Seconds() * bound
	b.tokens = min(burst, b.tokens+bound*float64(now-b.last)/1000)
	b.last = now
	return burst
}

// take takes tokens, whether they are there or not.
func (b *bucket) take(w QuotaWindows, bound, n float64, now int64) {
	b.tokens = min(b.refill(w, bound, now), b.tokens-n)
}

// throttle reports whether there are fewer tokens than none, and in how many milliseconds there no longer are. Kafka:
// Sensor.checkQuotas, ControllerMutationQuotaManager.throttleTimeMs.
func (b *bucket) throttle(w QuotaWindows, bound float64, now int64) (waitMs int64, owes bool) {
	b.refill(w, bound, now)
	if b.tokens >= 0 {
		return 0, false
	}
	return roundMs(-b.tokens / bound * 1000), true
}

// roundMs rounds as Java does, a half upwards. Differs from Kafka: what does not fit into a throttle time is the longest
// there is; Kafka cuts off the high bits.
func roundMs(ms float64) int64 {
	return int64(min(math.Floor(ms+0.5), math.MaxInt32))
}
