package features

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

// GroupClient is what a client does with the members of groups, and about them.
type GroupClient interface {
	// Join starts a consumer that tells m what it owns and reads, from the earliest offset where nothing is committed.
	Join(ctx context.Context, m *Member, group, topic string, mode Mode) (Consumer, error)
	Groups(ctx context.Context) ([]string, error)
	// Describe returns the partitions of each member.
	Describe(ctx context.Context, group string) ([][]int, error)
	// Reset commits an offset for a group that has no members.
	Reset(ctx context.Context, group, topic string, partition int, offset int64) error
	DeleteOffset(ctx context.Context, group, topic string, partition int) error
	DeleteGroup(ctx context.Context, group string) error
}

// Consumer is a member's consumer.
type Consumer interface {
	// Commit commits what it has read.
	Commit(ctx context.Context) error
	// Leave ends it; one without an instance id leaves the group.
	Leave() error
}

// Mode is how a member joins.
type Mode struct {
	Assignor Assignor
	Instance string        // of a static member
	Session  time.Duration // without a heartbeat; no broker allows less than 6 s
}

// Assignor is who assigns, and how.
type Assignor int

const (
	Eager       Assignor = iota // a member, by range
	Cooperative                 // a member, cooperative and sticky
	Server                      // the broker, by the protocol of KIP-848
)

const (
	longSession  = 45 * time.Second
	shortSession = 6 * time.Second
)

func groupBalance(assignor Assignor) func(context.Context, Client, string) error {
	return func(ctx context.Context, c Client, topic string) error {
		written, err := filled(ctx, c, topic)
		if err != nil {
			return err
		}
		g := newGroup(c, topic, Mode{Assignor: assignor, Session: longSession})
		defer g.close()
		var members []*Member
		for range 3 {
			m, err := g.join(ctx, "")
			if err != nil {
				return err
			}
			members = append(members, m)
		}
		if err := g.own(ctx, 2, members...); err != nil {
			return err
		}
		return g.await(ctx, "every record read", func() bool { return readAmong(members...) == written })
	}
}

func groupJoinLeave(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 6, nil); err != nil {
		return err
	}
	g := newGroup(c, topic, Mode{Session: longSession})
	defer g.close()
	first, err := g.joinOwning(ctx, "", 6)
	if err != nil {
		return err
	}
	second, err := g.joinOwning(ctx, "", 3, first)
	if err != nil {
		return err
	}
	return cmp.Or(g.leave(second), g.own(ctx, 6, first))
}

// groupKill has a victim that is a process of its own: this program, in victim.
func groupKill(ctx context.Context, c Client, topic string) error {
	if _, err := filled(ctx, c, topic); err != nil {
		return err
	}
	g := newGroup(c, topic, Mode{Session: shortSession})
	defer g.close()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	process := exec.CommandContext(ctx, program, append(slices.Clone(os.Args[1:]), g.name, topic)...)
	process.Stderr = os.Stderr
	said, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	kill := func() {
		process.Process.Kill()
		process.Wait()
	}
	defer kill()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err := cmp.Or(err, equal("what the victim says", line, "committed\n")); err != nil {
		return err
	}
	heir, err := g.joinOwning(ctx, "", 3)
	if err != nil {
		return err
	}
	kill()
	return cmp.Or(g.own(ctx, 6, heir), equal("records read again", heir.count(), 0))
}

// victim joins, commits what there is and says so, then waits to be killed.
func victim(ctx context.Context, c Client, group, topic string) error {
	g := &members{name: group, topic: topic, client: c, mode: Mode{Session: shortSession}, changed: make(chan struct{}, 1)}
	m, err := g.join(ctx, "")
	if err != nil {
		return err
	}
	all := func() bool { return readAmong(m) == 60 }
	if err := cmp.Or(g.await(ctx, "every record read", all), m.consumer.Commit(ctx)); err != nil {
		return err
	}
	fmt.Println("committed")
	<-ctx.Done()
	return ctx.Err()
}

func groupStatic(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 6, nil); err != nil {
		return err
	}
	g := newGroup(c, topic, Mode{Session: longSession})
	defer g.close()
	first, err := g.join(ctx, "one")
	if err != nil {
		return err
	}
	second, err := g.joinOwning(ctx, "two", 3, first)
	if err != nil {
		return err
	}
	before, assignments := second.partitions(), first.assigned()
	if err := g.leave(second); err != nil {
		return err
	}
	again, err := g.joinOwning(ctx, "two", 3)
	if err != nil {
		return err
	}
	return cmp.Or(
		equal("partitions of the member that came back", fmt.Sprint(again.partitions()), fmt.Sprint(before)),
		equal("assignments that the other got", first.assigned(), assignments))
}

func groupCooperative(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 6, nil); err != nil {
		return err
	}
	g := newGroup(c, topic, Mode{Assignor: Cooperative, Session: longSession})
	defer g.close()
	first, err := g.joinOwning(ctx, "", 6)
	if err != nil {
		return err
	}
	second, err := g.joinOwning(ctx, "", 3, first)
	if err != nil {
		return err
	}
	return equal("partitions revoked", fmt.Sprint(first.given()), fmt.Sprint(second.partitions()))
}

func groupAdmin(ctx context.Context, c Client, topic string) error {
	written, err := filled(ctx, c, topic)
	if err != nil {
		return err
	}
	g := newGroup(c, topic, Mode{Session: longSession})
	defer g.close()
	m, err := g.join(ctx, "")
	if err != nil {
		return err
	}
	all := func() bool { return readAmong(m) == written }
	if err := cmp.Or(g.await(ctx, "every record read", all), m.consumer.Commit(ctx), listed(ctx, c, g.name, true)); err != nil {
		return err
	}
	described, err := c.Describe(ctx, g.name)
	if err := cmp.Or(err, equal("partitions of its members", fmt.Sprint(described), fmt.Sprint([][]int{m.partitions()}))); err != nil {
		return err
	}
	if err := g.leave(m); err != nil {
		return err
	}
	empty := func(described [][]int) bool { return len(described) == 0 }
	if _, err := until(ctx, empty, func() ([][]int, error) { return c.Describe(ctx, g.name) }); err != nil {
		return err
	}
	if err := cmp.Or(committed(ctx, c, g, 10), c.Reset(ctx, g.name, topic, 0, 1), committed(ctx, c, g, 1)); err != nil {
		return err
	}
	switch err := c.DeleteOffset(ctx, g.name, topic, 0); {
	case err == nil:
		if err := committed(ctx, c, g, -1); err != nil {
			return err
		}
	case !errors.As(err, new(Unsupported)): // its offsets go with the group
		return err
	}
	return cmp.Or(c.DeleteGroup(ctx, g.name), listed(ctx, c, g.name, false))
}

func listed(ctx context.Context, c Client, group string, want bool) error {
	names, err := c.Groups(ctx)
	return cmp.Or(err, equal("listed", slices.Contains(names, group), want))
}

func committed(ctx context.Context, c Client, g *members, want int64) error {
	offset, err := c.Committed(ctx, g.name, g.topic, 0)
	return cmp.Or(err, equal("committed offset", offset, want))
}

// filled makes a topic of six partitions with ten records each, and returns how many there are.
func filled(ctx context.Context, c Client, topic string) (int, error) {
	if err := create(ctx, c, topic, 6, nil); err != nil {
		return 0, err
	}
	var records []Record
	for p := range 6 {
		records = append(records, plain(10, p, time.Millisecond)...)
	}
	return len(records), c.Produce(ctx, topic, records, "none", false)
}
