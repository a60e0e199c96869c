package compare

import (
	"bytes"
	"testing"
)

// FuzzSplice puts other texts and numbers into whatever decodes: what is decoded again has them and nothing else is
// changed, and without an edit the frame stays as it is.
func FuzzSplice(f *testing.F) {
	f.Add(int16(3), int16(12), []byte{0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 'h', 0, 0, 35, 0x84, 0, 0, 0, 0, 0, 0, 1, 1, 0}, "elsewhere")
	f.Add(int16(18), int16(0), []byte{0, 0, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}, "")
	f.Add(int16(0), int16(10), []byte{1, 0, 0, 0, 0, 1, 0, 14, 2, 0, 0, 0, 1, 2, 'h', 0, 0, 35, 0x84, 0, 0}, "a.longer.host.than.before.by.far.so.that.the.size.of.the.tag.grows")
	f.Fuzz(func(t *testing.T, key, version int16, b []byte, text string) {
		api, ok := APIByKey(key)
		if !ok || !api.Valid.Has(version) || len(text) > 1000 {
			return
		}
		flexible := api.Flexible.Has(version)
		root, left, err := decodeBody(api.Response, b, 0, version, flexible)
		if err != nil || left != 0 {
			return
		}
		e := edits{}
		var edit func(n *Node)
		edit = func(n *Node) {
			if n.Field != nil {
				switch n.Value.(type) {
				case string:
					e[n] = text
				case bool:
					e[n] = true
				}
			}
			for _, c := range n.Children {
				edit(c)
			}
		}
		edit(root)
		got, err := splice(b, root, version, flexible, e)
		if err != nil {
			// Only a tag whose size is written longer than it must be is refused.
			if api.Flexible.Has(version) {
				return
			}
			t.Fatalf("%s v%d %x: %v", api.Name, version, b, err)
		}
		if len(e) == 0 && !bytes.Equal(got, b) {
			t.Fatalf("without an edit: got %x, want %x", got, b)
		}
		again, left, err := decodeBody(api.Response, got, 0, version, flexible)
		if err != nil || left != 0 {
			t.Fatalf("%s v%d: %x became %x, %d bytes left: %v", api.Name, version, b, got, left, err)
		}
		var same func(was, is *Node)
		same = func(was, is *Node) {
			want := was.Value
			if v, ok := e[was]; ok {
				want = v
			}
			if valueText(was.Name, want) != valueText(is.Name, is.Value) || len(was.Children) != len(is.Children) {
				t.Fatalf("%s: got %v with %d inside, want %v with %d", was.Name, is.Value, len(is.Children), want, len(was.Children))
			}
			for i := range was.Children {
				same(was.Children[i], is.Children[i])
			}
		}
		same(root, again)
	})
}
