package compare

import (
	"context"
	"strings"
)

// removeGroups takes the members out of the case's groups and deletes the groups, as far as the broker serves that.
func (r *runner) removeGroups(ctx context.Context) error {
	for _, name := range []string{"ListGroups", "DeleteGroups"} {
		if _, ok := r.newest(name); !ok {
			return nil
		}
	}
	c, err := r.own(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	root, err := r.ask(ctx, c, "ListGroups", map[string]any{})
	if err != nil {
		return err
	}
	var names []any
	for _, g := range root.Child("groups").Children {
		name, _ := g.Child("groupId").Value.(string)
		if !strings.HasPrefix(name, r.prefix) {
			continue
		}
		names = append(names, name)
		kind := "classic"
		if t := g.Child("groupType"); t != nil {
			kind, _ = t.Value.(string)
		}
		if err := r.emptyGroup(ctx, c, name, strings.ToLower(kind)); err != nil {
			r.log("members of group %s: %v", name, err)
		}
	}
	if len(names) == 0 {
		return nil
	}
	root, err = r.ask(ctx, c, "DeleteGroups", map[string]any{"groupsNames": names})
	if err != nil {
		return err
	}
	for _, g := range root.Child("results").Children {
		if code := g.int("errorCode"); code != 0 && errorName(code) != "GROUP_ID_NOT_FOUND" {
			r.log("group %v: %s", g.Child("groupId").Value, errorName(code))
		}
	}
	return nil
}

// emptyGroup makes every member of a group leave. A member that is not heard of leaves only when its session ends.
func (r *runner) emptyGroup(ctx context.Context, c *conn, group, kind string) error {
	describe := map[string]string{"classic": "DescribeGroups", "consumer": "ConsumerGroupDescribe", "share": "ShareGroupDescribe", "streams": "StreamsGroupDescribe"}[kind]
	if _, ok := r.newest(describe); !ok {
		return nil
	}
	asked := map[string]any{"groupIds": []any{group}}
	if kind == "classic" {
		asked = map[string]any{"groups": []any{group}}
	}
	root, err := r.ask(ctx, c, describe, asked)
	if err != nil {
		return err
	}
	var leaving []any
	for _, g := range root.Child("groups").Children {
		for _, m := range g.Child("members").Children {
			id := m.Child("memberId").Value
			switch kind {
			case "classic":
				leaving = append(leaving, map[string]any{"memberId": id, "groupInstanceId": m.Child("groupInstanceId").value()})
			case "consumer":
				if m.Child("memberType").value() == int64(0) {
					// It came by JoinGroup, and leaves as it came.
					leaving = append(leaving, map[string]any{"memberId": id, "groupInstanceId": m.Child("instanceId").value()})
					continue
				}
				_, err = r.ask(ctx, c, "ConsumerGroupHeartbeat", map[string]any{"groupId": group, "memberId": id, "memberEpoch": -1, "instanceId": m.Child("instanceId").value()})
			case "share":
				_, err = r.ask(ctx, c, "ShareGroupHeartbeat", map[string]any{"groupId": group, "memberId": id, "memberEpoch": -1})
			case "streams":
				_, err = r.ask(ctx, c, "StreamsGroupHeartbeat", map[string]any{"groupId": group, "memberId": id, "memberEpoch": -1})
			}
			if err != nil {
				return err
			}
		}
	}
	if len(leaving) > 0 {
		_, err = r.ask(ctx, c, "LeaveGroup", map[string]any{"groupId": group, "members": leaving})
	}
	return err
}

// newest is the highest version of an api that the broker serves and this package knows.
func (r *runner) newest(name string) (int16, bool) {
	a, ok := APINamed(name)
	if !ok {
		return 0, false
	}
	served, ok := r.broker.APIs[a.Key]
	both := served.And(a.Valid)
	return both.Max, ok && !both.Empty()
}

// ask sends a request in the newest version.
func (r *runner) ask(ctx context.Context, c *conn, name string, values map[string]any) (*Node, error) {
	a, _ := APINamed(name)
	version, _ := r.newest(name)
	return c.call(ctx, a, version, values)
}

// value is the value of a leaf; nil where there is none.
func (n *Node) value() any {
	if n == nil {
		return nil
	}
	return n.Value
}
