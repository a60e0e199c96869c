package compare

import "testing"

func TestPinsOfValuesAndOfNothing(t *testing.T) {
	item := &Node{Kind: Struct, Children: []*Node{{Name: "id", Value: int64(3)}, {Name: "errorCode", Value: int64(3)}}}
	root := &Node{Kind: Struct, Children: []*Node{{Name: "items", Kind: Array, Children: []*Node{item}}}}
	for _, c := range []struct {
		path string
		want any
		kept bool
	}{
		{"items[0].id", 3, true},
		{"items[0].id", 4, false},
		{"items[0].errorCode", "UNKNOWN_TOPIC_OR_PARTITION", true},
		{"items[id=3].id", 3, true},
		{"items[id=4].id", 3, false},
		{"items[]", 1, true},
		{"items[id=4]", absent, true},
		{"items[id=3]", absent, false},
		{"items[id=3].other", absent, true},
	} {
		got := checkPin(map[string]any{c.path: c.want}, answer{outcome: "answered", root: root})
		if kept := len(got) == 0; kept != c.kept {
			t.Errorf("%s: %v: got %q, want kept %v", c.path, c.want, got, c.kept)
		}
	}
	if got := checkPin(map[string]any{"items[id=4]": absent}, answer{outcome: "closed"}); len(got) == 0 {
		t.Error("absent from an answer that did not come: got it kept")
	}
}
