package storage

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Endings of files in the middle of a change; before them stands the whole name of a segment's file.
const (
	deletedSuffix = ".deleted" // to be removed after file.delete.delay.ms, or when its last reader has let go
	cleanedSuffix = ".cleaned" // being written by a compaction
	swapSuffix    = ".swap"    // complete; takes the place of the segments it was made of
)

// directoryPlan says what a partition directory means and how it is put in order. It is made from the names alone, so
// the directory of another broker can be read as it is and put in order later.
type directoryPlan struct {
	remove   []string // base names of leftovers
	segments []plannedSegment
	// snapshots are the offsets of producer snapshots, ascending.
	snapshots []int64
	epochs    bool // there is a leader epoch checkpoint
	// orphans are the base offsets of index files without a .log file, which are among the leftovers.
	orphans []int64
}

// plannedSegment is a segment that the directory has.
type plannedSegment struct {
	base   int64
	suffix string // swapSuffix while its files have that ending, else ""
	index  bool   // there is an offset index
	times  bool   // a time index
	txns   bool   // a transaction index
	reach  int64  // what the segment's note says; 0 without one
}

// deletedName returns the name that a file of a segment has on its way out; n tells segments of one base offset apart.
func deletedName(name string, n int) string {
	if n > 0 {
		dir, file := filepath.Split(name)
		name = fmt.Sprintf("%s%s.%d%s", dir, file[:20], n, file[20:])
	}
	return name + deletedSuffix
}

// parseSegmentFile takes the name of a segment's file apart.
func parseSegmentFile(name string) (base int64, suffix, state string, ok bool) {
	digits, rest, found := strings.Cut(name, ".")
	if !found || len(digits) != 20 {
		return 0, "", "", false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || base < 0 || digits[0] == '+' {
		return 0, "", "", false
	}
	rest = "." + rest
	if older, found := strings.CutSuffix(rest, deletedSuffix); found {
		if n, r, found := strings.Cut(strings.TrimPrefix(older, "."), "."); found && isDigits(n) {
			rest = "." + r + deletedSuffix
		}
	}
	for _, s := range []string{deletedSuffix, cleanedSuffix, swapSuffix} {
		if r, found := strings.CutSuffix(rest, s); found {
			rest, state = r, s
			break
		}
	}
	switch rest {
	case logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix:
		return base, rest, state, true
	}
	return 0, "", "", false
}

// planDirectory reads the names in a partition directory. A segment with swapSuffix stands in for all with a base
// offset from its own on, up to the offset that its note names or that replaced returns, whichever is higher.
// Kafka: LogLoader.load.
func planDirectory(names []string, replaced func(base int64) (next int64, err error)) (*directoryPlan, error) {
	type found struct{ log, index, times, txns bool }
	plan := &directoryPlan{}
	plain, swap := map[int64]*found{}, map[int64]*found{}
	minCleaned := int64(-1)
	noted := map[int64][]int64{} // by the base of a segment, how far it reaches
	for _, name := range names {
		if name == leaderEpochFile {
			plan.epochs = true
		}
		if strings.HasSuffix(name, tempSuffix) {
			plan.remove = append(plan.remove, name)
			continue
		}
		if base, next, ok := ParseNote(name); ok {
			noted[base] = append(noted[base], next)
			continue
		}
		base, suffix, state, ok := parseSegmentFile(name)
		if !ok {
			continue
		}
		if state == cleanedSuffix && (minCleaned < 0 || base < minCleaned) {
			minCleaned = base
		}
		if state == deletedSuffix || state == cleanedSuffix {
			plan.remove = append(plan.remove, name)
			continue
		}
		if suffix == snapshotSuffix {
			if state == "" {
				plan.snapshots = append(plan.snapshots, base)
			}
			continue
		}
		set := plain
		if state == swapSuffix {
			set = swap
		}
		f := set[base]
		if f == nil {
			f = &found{}
			set[base] = f
		}
		switch suffix {
		case logSuffix:
			f.log = true
		case indexSuffix:
			f.index = true
		case timeIndexSuffix:
			f.times = true
		case txnIndexSuffix:
			f.txns = true
		}
	}
	drop := func(base int64, f *found, state string) {
		for _, x := range []struct {
			there  bool
			suffix string
		}{{f.log, logSuffix}, {f.index, indexSuffix}, {f.times, timeIndexSuffix}, {f.txns, txnIndexSuffix}} {
			if x.there {
				plan.remove = append(plan.remove, segmentFile("", base, x.suffix)+state)
			}
		}
	}
	for base, f := range swap {
		// A .cleaned file beside it means that not all of the replacement was complete.
		if !f.log || minCleaned >= 0 && base >= minCleaned {
			drop(base, f, swapSuffix)
			delete(swap, base)
		}
	}
	for base, f := range swap {
		next, err := replaced(base)
		if err != nil {
			return nil, err
		}
		next = slices.Max(append(noted[base], next))
		for b, g := range plain {
			if b >= base && (b < next || b == base) {
				drop(b, g, "")
				delete(plain, b)
			}
		}
		plan.segments = append(plan.segments, plannedSegment{base: base, suffix: swapSuffix, index: f.index, times: f.times, txns: f.txns})
	}
	for base, f := range plain {
		if !f.log {
			drop(base, f, "") // an index without its segment
			plan.orphans = append(plan.orphans, base)
			continue
		}
		plan.segments = append(plan.segments, plannedSegment{base: base, index: f.index, times: f.times, txns: f.txns})
	}
	slices.SortFunc(plan.segments, func(a, b plannedSegment) int { return cmp.Compare(a.base, b.base) })
	plan.readNotes(noted)
	slices.Sort(plan.snapshots)
	slices.Sort(plan.orphans)
	slices.Sort(plan.remove)
	return plan, nil
}

// readNotes gives the segments what their notes say. One that is about to be replaced has two notes: its own goes no further
// than the next segment. Notes that mean nothing are leftovers.
func (plan *directoryPlan) readNotes(noted map[int64][]int64) {
	for i := range plan.segments {
		p := &plan.segments[i]
		for _, reach := range noted[p.base] {
			if i+1 == len(plan.segments) || reach <= plan.segments[i+1].base {
				p.reach = max(p.reach, reach)
			}
		}
	}
	for base, reaches := range noted {
		for _, reach := range reaches {
			if !slices.ContainsFunc(plan.segments, func(p plannedSegment) bool { return p.base == base && p.reach == reach }) {
				plan.remove = append(plan.remove, noteName(base, reach))
			}
		}
	}
}
