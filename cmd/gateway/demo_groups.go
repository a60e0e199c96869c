package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// newDemoGroupsCommand walks through the two numbers of a consumer: its position, which dies with it, and the committed
// offset, which is a record in a log.
func newDemoGroupsCommand() *cobra.Command {
	d := &groupsDemo{}
	cmd := d.command("groups", "Watch consumers commit, crash and come back",
		"Lets a consumer crash in the middle of a batch, once committing after it has processed\n"+
			"and once before; shows what groups leave in the log, and who may commit when. The same\n"+
			"flags always print the same.", d.run)
	cmd.Flags().StringVar(&d.group, "group", "kitchen", "group of the consumer")
	cmd.Flags().Int64Var(&d.crashAfter, "crash-after", 12, "records that the consumer processes before it crashes")
	return cmd
}

const (
	demoOrders = 20 // records of the topic
	demoPoll   = 5  // records that a poll returns at most
)

type groupsDemo struct {
	walkThrough
	group      string
	crashAfter int64

	mem    *vfs.Mem
	store  *storage.Store
	groups *groups.Coordinator
	orders *storage.Topic
	stop   func() // ends the coordinator
}

func (d *groupsDemo) run() error {
	if d.crashAfter < 0 || d.crashAfter > demoOrders || d.group == "" {
		return &exitError{Code: exitUsage, Err: fmt.Errorf("group %q, crash after %d: want a name, and 0 to %d", d.group, d.crashAfter, demoOrders)}
	}
	for _, step := range []func() error{d.atLeastOnce, d.atMostOnce, d.threeGroups, d.fencing} {
		// Each part begins with a log of its own.
		d.mem = vfs.NewMem(vfs.MemOptions{Now: d.clock})
		err := d.start()
		if err == nil {
			err = d.fill()
		}
		if err == nil {
			err = step()
		}
		if err = errors.Join(err, d.close()); err != nil {
			return err
		}
	}
	return nil
}

// start opens the store and reads what groups have committed.
func (d *groupsDemo) start() error {
	store, err := storage.Open("data", storage.Options{FS: d.mem, Now: d.clock})
	if err != nil {
		return err
	}
	d.store = store
	d.groups = groups.New(groups.Options{Store: store, Now: d.clock, OffsetsPartitions: 1})
	d.orders, _ = store.Topic("orders")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.groups.Run(ctx) // it has no error
	}()
	d.stop = func() {
		cancel()
		<-ended
	}
	return d.until(func() (bool, error) {
		err := d.groups.Available(d.group)
		if errors.Is(err, groups.ErrLoading) {
			return false, nil
		}
		return err == nil, err
	})
}

// close stops the coordinator and the store.
func (d *groupsDemo) close() error {
	if d.store == nil {
		return nil
	}
	d.stop()
	return d.store.Close()
}

// restart is a crash and a new start: what was only in memory is gone.
func (d *groupsDemo) restart() error {
	if err := d.close(); err != nil {
		return err
	}
	return d.start()
}

// until waits for what another goroutine is about to do.
func (d *groupsDemo) until(done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		<-time.After(time.Millisecond)
	}
}

// fill makes the topic and its records.
func (d *groupsDemo) fill() error {
	topic, err := d.store.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: 1})
	if err != nil {
		return err
	}
	d.orders = topic
	l, _ := topic.Partition(0)
	for i := range demoOrders {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		b.Append(record.Record{Value: fmt.Appendf(nil, "order %d", i), Timestamp: d.nowMs})
		a, err := l.Append(b.Bytes(), storage.AppendOptions{})
		if err == nil {
			err = l.WaitDurable(context.Background(), a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// poll reads the next records from offset on, and returns their offsets.
func (d *groupsDemo) poll(offset int64) (offsets []int64, err error) {
	l, _ := d.orders.Partition(0)
	res, err := l.Read(nil, storage.ReadRequest{Offset: offset, MaxBytes: 1 << 20, MinOneBatch: true})
	if err != nil {
		return nil, err
	}
	var reader record.Reader
	for rest := res.Data; len(rest) > 0 && len(offsets) < demoPoll; {
		var b record.Batch
		if b, rest, err = record.Cut(rest); err != nil {
			return nil, err
		}
		for r, err := range reader.Records(b) {
			if err != nil {
				return nil, err
			}
			offsets = append(offsets, r.Offset)
		}
	}
	return offsets, nil
}

// commit stores an offset of a group as a consumer does that assigns itself partitions.
func (d *groupsDemo) commit(group string, offset int64) error {
	return d.commitAs(groups.CommitRequest{Group: group, Generation: -1, Epochs: true, Retention: -1}, offset)
}

// commitAs stores an offset for whoever r names.
func (d *groupsDemo) commitAs(r groups.CommitRequest, offset int64) error {
	r.Commits = []groups.Commit{{Topic: "orders", TopicID: d.orders.ID(), Offset: offset, LeaderEpoch: -1}}
	errs, err := d.groups.CommitOffsets(context.Background(), &r)
	if err == nil {
		err = errs[0]
	}
	return err
}

// committed returns what a group has committed; false when that is nothing.
func (d *groupsDemo) committed(group string) (int64, bool, error) {
	found, err := d.groups.FetchOffsets(context.Background(), &groups.FetchRequest{Group: group, MemberEpoch: -1})
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	return found[0].Offset.Offset, true, nil
}

// consume polls and processes from the committed offset on, until it has processed crashAfter records in all, or the
// log ends. before says that it commits before it processes. It returns where it began, its position, and what it
// processed.
func (d *groupsDemo) consume(before bool, crashAfter int64) (from, position int64, processed []int64, err error) {
	position, _, err = d.committed(d.group)
	from = position
	for err == nil {
		var polled []int64
		if polled, err = d.poll(position); err != nil || len(polled) == 0 {
			break
		}
		next := polled[len(polled)-1] + 1
		if before {
			err = d.commit(d.group, next)
		}
		for _, offset := range polled {
			if err != nil || int64(len(processed)) == crashAfter {
				return from, position, processed, err
			}
			processed = append(processed, offset)
			position = offset + 1
			if int64(len(processed)) == crashAfter {
				return from, position, processed, nil // before it can commit what it has just processed
			}
		}
		if !before && err == nil {
			err = d.commit(d.group, next)
		}
	}
	return from, position, processed, err
}

// afterCrash starts anew and consumes the rest. It prints what was processed twice and what never.
func (d *groupsDemo) afterCrash(position int64, processed []int64) error {
	if err := d.restart(); err != nil {
		return err
	}
	committed, _, err := d.committed(d.group)
	if err != nil {
		return err
	}
	d.printf("  crash after %d processed: position %d, which nobody knows any more; committed %d\n", len(processed), position, committed)
	from, _, again, err := d.consume(false, demoOrders+1)
	if err != nil {
		return err
	}
	times := make([]int, demoOrders)
	for _, offset := range append(processed, again...) {
		times[offset]++
	}
	twice, never := []int{}, []int{}
	for offset, n := range times {
		switch n {
		case 0:
			never = append(never, offset)
		case 2:
			twice = append(twice, offset)
		}
	}
	d.printf("  redelivery window %d: goes on at %d, reprocessed %v, lost %v\n\n", max(position-committed, 0), from, twice, never)
	return nil
}

func (d *groupsDemo) atLeastOnce() error {
	d.printf("%d orders, polls of %d, group %s\n\n", demoOrders, demoPoll, d.group)
	d.printf("At least once: read, process, then commit\n\n")
	_, position, processed, err := d.consume(false, d.crashAfter)
	if err != nil {
		return err
	}
	return d.afterCrash(position, processed)
}

func (d *groupsDemo) atMostOnce() error {
	d.printf("At most once: read, commit, then process\n\n")
	_, position, processed, err := d.consume(true, d.crashAfter)
	if err != nil {
		return err
	}
	return d.afterCrash(position, processed)
}

// threeGroups shows that groups share a log and not their offsets, and that what they commit is records.
func (d *groupsDemo) threeGroups() error {
	d.printf("Three groups on one log: each commit is a record\n\n")
	for _, c := range []struct {
		group  string
		offset int64
	}{{d.group, 7}, {"courier", 4}, {"analytics", 0}} {
		if err := d.commit(c.group, c.offset); err != nil {
			return err
		}
	}
	if err := d.restart(); err != nil {
		return err
	}
	for _, group := range []string{d.group, "courier", "analytics"} {
		offset, _, err := d.committed(group)
		if err != nil {
			return err
		}
		d.printf("  %-9s  read back by replay: %d\n", group, offset)
	}
	if err := d.offsetsLog("  log of offsets"); err != nil {
		return err
	}
	errs, err := d.groups.DeleteOffsets(context.Background(), "courier", []groups.OffsetDelete{{Topic: "orders"}})
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		return err
	}
	return d.offsetsLog("  after courier's offset is deleted")
}

// offsetsLog prints how many records the log of offsets has, and how many keys whose last record has a value.
func (d *groupsDemo) offsetsLog(when string) error {
	topic, ok := d.store.Topic(groups.OffsetsTopic)
	if !ok {
		return fmt.Errorf("there is no %s", groups.OffsetsTopic)
	}
	l, _ := topic.Partition(0)
	o, err := l.Offsets()
	if err != nil {
		return err
	}
	live, err := liveKeys(l)
	if err != nil {
		return err
	}
	d.printf("%s: %d records, %d live keys\n", when, o.End, live)
	return nil
}

// demoMember is a member of the group whose calls park as those of a client do.
type demoMember struct {
	d     *groupsDemo
	id    string
	reply chan groups.JoinReply
	err   error
}

// join sends a JoinGroup, which is answered when the group's members have all joined.
func (m *demoMember) join() {
	m.reply = make(chan groups.JoinReply, 1)
	go func() {
		r, err := m.d.groups.JoinGroup(context.Background(), &groups.JoinRequest{
			Group: m.d.group, MemberID: m.id, ClientID: "demo", ClientHost: "/127.0.0.1", SessionTimeout: time.Minute, RebalanceTimeout: time.Minute,
			ProtocolType: "consumer", Protocols: []groups.Protocol{{Name: "range"}},
		})
		m.err = err
		m.reply <- r
	}()
}

// joined waits for the answer to join and returns the generation.
func (m *demoMember) joined() (int32, error) {
	r := <-m.reply
	m.id = r.MemberID
	return r.Generation, m.err
}

func (m *demoMember) sync(generation int32) error {
	_, err := m.d.groups.SyncGroup(context.Background(), &groups.SyncRequest{Group: m.d.group, MemberID: m.id, Generation: generation})
	return err
}

// inState waits until the group is in a state.
func (d *groupsDemo) inState(state string) error {
	return d.until(func() (bool, error) {
		g, err := d.groups.DescribeGroup(d.group)
		return g.State == state, err
	})
}

// fencing tries commits of members in each state of the group.
func (d *groupsDemo) fencing() error {
	d.printf("\nWho may commit: a rebalance closes writing, never reading\n\n")
	offset := int64(100)
	try := func(state, who, member string, generation int32) error {
		offset++
		err := d.commitAs(groups.CommitRequest{Group: d.group, MemberID: member, Generation: generation, Epochs: true, Retention: -1}, offset)
		answer := "accepted"
		if err != nil {
			if answer = kafkaName(err); answer == "" {
				return err
			}
		}
		at, found, err := d.committed(d.group)
		if err != nil {
			return err
		}
		fetched := "fetch answers nothing committed"
		if found {
			fetched = fmt.Sprintf("fetch answers %d", at)
		}
		d.printf("  %-19s  %-34s  %-21s  %s\n", state, who, answer, fetched)
		return nil
	}
	first, second := &demoMember{d: d}, &demoMember{d: d}
	first.join()
	one, err := first.joined()
	if err != nil {
		return err
	}
	if err := first.sync(one); err != nil {
		return err
	}
	if err := errors.Join(
		try("Stable", "current member, current generation", first.id, one),
		try("Stable", "current member, old generation", first.id, one-1),
		try("Stable", "unknown member", "nobody", one),
	); err != nil {
		return err
	}
	second.join()
	if err := d.inState("PreparingRebalance"); err != nil {
		return err
	}
	if err := try("PreparingRebalance", "current member, current generation", first.id, one); err != nil {
		return err
	}
	first.join()
	two, err := first.joined()
	if err == nil {
		_, err = second.joined()
	}
	if err != nil {
		return err
	}
	if err := try("CompletingRebalance", "current member, current generation", first.id, two); err != nil {
		return err
	}
	if _, err := d.groups.LeaveGroup(context.Background(), &groups.LeaveRequest{Group: d.group, Members: []groups.LeavingMember{{MemberID: first.id}, {MemberID: second.id}}}); err != nil {
		return err
	}
	if err := d.groups.DeleteGroup(context.Background(), d.group); err != nil {
		return err
	}
	return try("Dead", "former member, last generation", first.id, two)
}

// kafkaName is Kafka's name of an error of groups; "" for one that has no place in the walk-through.
func kafkaName(err error) string {
	for _, x := range []struct {
		err  error
		code *kerr.Error
	}{
		{groups.ErrIllegalGeneration, kerr.IllegalGeneration},
		{groups.ErrUnknownMemberID, kerr.UnknownMemberID},
		{groups.ErrRebalanceInProgress, kerr.RebalanceInProgress},
		{groups.ErrGroupIDNotFound, kerr.GroupIDNotFound},
	} {
		if errors.Is(err, x.err) {
			return x.code.Message
		}
	}
	return ""
}
