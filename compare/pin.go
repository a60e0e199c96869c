package compare

import (
	"fmt"
	"strconv"
	"strings"
)

// normaliseYAML makes plain maps of what the YAML decoder returns for a field of type any.
func normaliseYAML(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[k] = normaliseYAML(item)
		}
		return out
	case map[any]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[fmt.Sprint(k)] = normaliseYAML(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = normaliseYAML(item)
		}
		return out
	}
	return v
}

// absent is what a pin says of a path that the answer must not have.
const absent = "(absent)"

// checkPin returns what of want an answer does not have. want is a map of paths to values, or one of outcomes.
func checkPin(want any, a answer) []string {
	if word, ok := want.(string); ok {
		if a.outcome != word {
			return []string{fmt.Sprintf("want %s, got %s", word, a.outcome)}
		}
		return nil
	}
	paths, ok := want.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("a pin is a map of paths, or one of %s; got %v", strings.Join(outcomes, ", "), want)}
	}
	if a.root == nil {
		return []string{fmt.Sprintf("want an answer, got %s", a.outcome)}
	}
	var out []string
	for p, v := range paths {
		got, ok := valueAt(a.root, p)
		if v == absent {
			if ok {
				out = append(out, fmt.Sprintf("%s: want none, got %s", p, valueText(p, got)))
			}
			continue
		}
		if !ok {
			out = append(out, fmt.Sprintf("%s: want %v, not in the answer", p, v))
			continue
		}
		if !samePinned(v, got, p) {
			out = append(out, fmt.Sprintf("%s: want %v, got %s", p, v, valueText(p, got)))
		}
	}
	return out
}

// samePinned compares a value of a pin with one of an answer; error codes may be pinned by name.
func samePinned(want, got any, p string) bool {
	if got == nil || want == nil {
		return got == nil && want == nil
	}
	if code, ok := got.(int64); ok {
		if name, ok := want.(string); ok && strings.HasSuffix(strings.ToLower(p), "errorcode") {
			return errorName(code) == name
		}
	}
	if b, ok := got.([]byte); ok {
		if w, ok := want.([]byte); ok {
			return string(w) == string(b)
		}
		return fmt.Sprint(want) == string(b)
	}
	return fmt.Sprint(want) == fmt.Sprint(got)
}

// valueAt finds a value in an answer as it came: topics[0].partitions[partitionIndex=1].errorCode. A path that ends in []
// is the length of an array; an array or struct itself is its number of children.
func valueAt(root *Node, path string) (any, bool) {
	n := root
	for _, part := range strings.Split(path, ".") {
		if n == nil {
			return nil, false
		}
		name, indexes, _ := strings.Cut(part, "[")
		if name != "" {
			n = n.Child(name)
		}
		for _, index := range strings.Split(strings.TrimSuffix(indexes, "]"), "][") {
			if n == nil {
				return nil, false
			}
			if indexes == "" {
				break
			}
			if index == "" {
				return int64(len(n.Children)), n.Kind == Array
			}
			if field, want, ok := strings.Cut(index, "="); ok { // the element with that value in a field
				n = elementWith(n, field, want)
				continue
			}
			i, err := strconv.Atoi(index)
			if err != nil || n.Kind != Array || i < 0 || i >= len(n.Children) {
				return nil, false
			}
			n = n.Children[i]
		}
	}
	if n == nil {
		return nil, false
	}
	if n.Kind != Leaf {
		return int64(len(n.Children)), true
	}
	return n.Value, true
}

// elementWith is the first element of an array that has a value in a field, or nil.
func elementWith(n *Node, field, want string) *Node {
	for _, item := range n.Children {
		if c := item.Child(field); c != nil && fmt.Sprint(c.Value) == want {
			return item
		}
	}
	return nil
}
