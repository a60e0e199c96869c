package compare

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// settle waits, after an answer that changed topics, until the broker's metadata show it. Kafka's controller answers
// before its broker has taken the change in, so that what comes next would be a matter of luck. A broker that never
// shows it goes on after the time of a call: the steps that follow tell.
func (r *runner) settle(ctx context.Context, p *pending, a answer) error {
	if only, _ := lookup(p.values, "validateOnly"); only == true || a.root == nil || a.fault != "" {
		return nil
	}
	wanted := map[string]int64{} // topic: partitions at least; 0 is gone
	switch p.api.Name {
	case "AlterConfigs", "IncrementalAlterConfigs":
		return r.passBarrier(ctx)
	case "CreateTopics":
		for _, t := range a.root.Child("topics").Children {
			if name, _ := t.Child("name").Value.(string); t.int("errorCode") == 0 {
				wanted[name] = 1
			}
		}
	case "DeleteTopics":
		for _, t := range a.root.Child("responses").Children {
			if name, _ := t.Child("name").Value.(string); t.int("errorCode") == 0 && name != "" {
				wanted[name] = 0
			}
		}
	case "CreatePartitions":
		counts := map[string]int64{}
		topics, _ := lookup(p.values, "topics")
		list, _ := topics.([]any)
		for _, item := range list {
			if m, ok := item.(map[string]any); ok {
				n, _ := asInt(m["count"])
				counts[fmt.Sprint(m["name"])] = n
			}
		}
		for _, t := range a.root.Child("results").Children {
			if name, _ := t.Child("name").Value.(string); t.int("errorCode") == 0 {
				wanted[name] = counts[name]
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return r.waitFor(ctx, wanted)
}

// barrier is a topic of the case's own that is no part of what the scenario sees.
func (r *runner) barrier() string { return strings.TrimSuffix(r.prefix, "-") + ".barrier" }

// passBarrier makes a topic, waits until the broker shows it, and removes it: a broker takes changes in their order, so
// that it has then taken in what was changed before.
func (r *runner) passBarrier(ctx context.Context) error {
	c, err := r.connection(ctx, "(own)")
	if err != nil {
		return err
	}
	create, _ := APINamed("CreateTopics")
	if _, err := c.call(ctx, create, 2, map[string]any{"timeoutMs": 10000, "topics": []any{map[string]any{
		"name": r.barrier(), "numPartitions": 1, "replicationFactor": 1}}}); err != nil {
		return err
	}
	if err := r.waitFor(ctx, map[string]int64{r.barrier(): 1}); err != nil {
		return err
	}
	remove, _ := APINamed("DeleteTopics")
	if _, err := c.call(ctx, remove, 1, map[string]any{"topicNames": []any{r.barrier()}, "timeoutMs": 10000}); err != nil {
		return err
	}
	return r.waitFor(ctx, map[string]int64{r.barrier(): 0})
}

// waitFor waits until the broker shows topics with at least so many partitions, or none.
func (r *runner) waitFor(ctx context.Context, wanted map[string]int64) error {
	c, err := r.connection(ctx, "(own)")
	if err != nil {
		return err
	}
	metadata, _ := APINamed("Metadata")
	var names []any
	for name := range wanted {
		names = append(names, map[string]any{"name": name})
	}
	err = poll(ctx, callTimeout, func() error {
		root, err := c.call(ctx, metadata, 4, map[string]any{"topics": names, "allowAutoTopicCreation": false})
		if err != nil {
			return err
		}
		for _, t := range root.Child("topics").Children {
			name, _ := t.Child("name").Value.(string)
			if !shows(t, wanted[name]) {
				return &again{name}
			}
		}
		return nil
	})
	var not *again
	if errors.As(err, &not) {
		return nil
	}
	return err
}

// shows reports whether a topic of a Metadata answer has at least so many partitions with a leader; none means gone.
func shows(t *Node, partitions int64) bool {
	if partitions == 0 {
		return t.int("errorCode") != 0
	}
	led := int64(0)
	for _, p := range t.Child("partitions").Children {
		if p.int("errorCode") == 0 && p.int("leaderId") >= 0 {
			led++
		}
	}
	return t.int("errorCode") == 0 && led >= partitions
}
