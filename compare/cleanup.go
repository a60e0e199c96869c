package compare

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// cleanUp does the scenario's last steps and removes the groups and topics whose names begin with the case's prefix,
// which only the case can have made. It has time of its own, so that it runs also when ctx has ended.
func (r *runner) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if !r.ended {
		r.breakOff(ctx)
	}
	for i, st := range r.c.Scenario.Finally {
		n := len(r.out.Answers)
		if err := r.request(ctx, i+1, st); err != nil {
			r.log("clean-up step %d: %v", i+1, err)
		}
		r.out.Answers = r.out.Answers[:n]
	}
	if !r.ended {
		// A broker may still be making a topic that was asked for in passing, by Metadata for one.
		if err := r.passBarrier(ctx); err != nil {
			r.log("barrier: %v", err)
		}
	}
	// Groups first: Kafka deletes no share group while the state of a topic that has gone is being removed from it.
	if err := r.removeGroups(ctx); err != nil {
		r.log("groups: %v", err)
	}
	if err := r.removeTopics(ctx); err != nil {
		r.log("topics: %v", err)
	}
	for name := range r.conns {
		r.hangUp(name)
	}
}

// breakOff gives the answers that are still to come a moment, because what was sent may make something, and hangs up:
// behind a request that waits nothing else is done.
func (r *runner) breakOff(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range r.conns {
		all.Go(func() { c.drain(ctx, time.Second) })
	}
	all.Wait()
	for name := range r.conns {
		r.hangUp(name)
	}
}

func (r *runner) log(format string, args ...any) {
	if r.o.Log != nil {
		r.o.Log(fmt.Sprintf("%s: %s: cleaning up: ", r.broker.Addr, r.c) + fmt.Sprintf(format, args...))
	}
}

// own connects anew: a scenario may have spoilt its connections.
func (r *runner) own(ctx context.Context) (*conn, error) { return dial(ctx, r.broker.Addr) }

func (r *runner) removeTopics(ctx context.Context) error {
	c, err := r.own(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	metadata, _ := APINamed("Metadata")
	root, err := c.call(ctx, metadata, 4, map[string]any{"topics": nil})
	if err != nil {
		return err
	}
	var names []any
	for _, t := range root.Child("topics").Children {
		if name, _ := t.Child("name").Value.(string); strings.HasPrefix(name, r.prefix) || name == r.barrier() {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	remove, _ := APINamed("DeleteTopics")
	root, err = c.call(ctx, remove, 1, map[string]any{"topicNames": names, "timeoutMs": 10000})
	if err != nil {
		return err
	}
	for _, t := range root.Child("responses").Children {
		if code := t.int("errorCode"); code != 0 && code != 3 {
			return fmt.Errorf("delete %v: %s", t.Child("name").Value, errorName(code))
		}
	}
	return nil
}
