package storage

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestMetaPropertiesWritesJavasFormat(t *testing.T) {
	id, err := ParseTopicID("KDGAvSGPT3OcvXcPbVEzHw")
	if err != nil {
		t.Fatal(err)
	}
	m := MetaProperties{Version: 1, ClusterID: "a b=c:d", NodeID: 3, DirectoryID: id}
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	want := "#\n#Tue Feb 03 04:05:06 UTC 2026\ncluster.id=a b\\=c\\:d\ndirectory.id=KDGAvSGPT3OcvXcPbVEzHw\nnode.id=3\nversion=1\n"
	if got := string(encodeMetaProperties(m, now)); got != want {
		t.Errorf("encoded\n%s, want\n%s", got, want)
	}
	mem := vfs.NewMem(vfs.MemOptions{})
	if err := mem.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	if err := writeMetaProperties(mem, "data", m, now); err != nil {
		t.Fatal(err)
	}
	if got, err := readMetaProperties(mem, "data"); err != nil || got != m {
		t.Errorf("read %+v, %v, want %+v", got, err, m)
	}
}

func TestDecodeMetaProperties(t *testing.T) {
	for _, c := range []struct {
		text string
		want MetaProperties
		err  string
	}{
		{"version=1\ncluster.id=abc\nnode.id=1\n", MetaProperties{Version: 1, ClusterID: "abc", NodeID: 1}, ""},
		{"# x\nversion = 1\ncluster.id: abc\nnode.id 7\nunknown=1", MetaProperties{Version: 1, ClusterID: "abc", NodeID: 7}, ""},
		{"", MetaProperties{NodeID: -1}, ""},
		{"broker.id=5\n", MetaProperties{NodeID: 5}, ""},
		{"version=0\nnode.id=5\n", MetaProperties{NodeID: -1}, ""},
		{"version=2\n", MetaProperties{}, `line 1: version "2", want 0 or 1`},
		{"\n\nversion=one\n", MetaProperties{}, `line 3: version "one"`},
		{"version=1\nnode.id=1\n", MetaProperties{}, "no cluster.id"},
		{"version=1\ncluster.id=abc\n", MetaProperties{}, "no node.id"},
		{"version=1\ncluster.id=abc\nnode.id=x\n", MetaProperties{}, `line 3: node.id "x" is not a number`},
		{"version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=x\n", MetaProperties{}, `line 4: directory.id "x" is not an id`},
	} {
		got, err := DecodeMetaProperties([]byte(c.text))
		if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: %+v, %v, want %+v, %q", c.text, got, err, c.want, c.err)
		}
	}
}

func TestPropertiesAreJavas(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"a=1\nb:2\nc 3\nd\n":            {"a": "1", "b": "2", "c": "3", "d": ""},
		"  a  =  1 \n":                  {"a": "1 "},
		"a==1\nb= =2\n":                 {"a": "=1", "b": "=2"},
		"a\\=b\\ c=1\n":                 {"a=b c": "1"},
		"a=x\\\n   y\\\n\tz\n":          {"a": "xyz"},
		"a=x\\\\\nb=1":                  {"a": "x\\", "b": "1"},
		"a=\\u0041\\t\\n\\q\\u00e9":     {"a": "A\t\nqé"},
		"a=\\u00":                       {"a": "u00"},
		"#a=1\n!b=1\n  # c=1\n\n":       {},
		"a=1\ra=2\r\nb=3":               {"a": "2", "b": "3"},
		"# comment \\\na=1":             {"a": "1"},
		"a=1\\":                         {"a": "1"},
		"a=1 \\\n# no comment here\nb=": {"a": "1 # no comment here", "b": ""},
	} {
		if got, _ := parseProperties([]byte(text)); !maps.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("version=1\ncluster.id=abc\nnode.id=1\n"))
	f.Add([]byte("a=x\\\n  y\\u00e9\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, lines := parseProperties(b)
		var again []byte
		for key, value := range values {
			if lines[key] < 1 {
				t.Fatalf("%q: key %q is on line %d", b, key, lines[key])
			}
			key, value = strings.ToValidUTF8(key, "?"), strings.ToValidUTF8(value, "?")
			again = appendProperty(nil, key, value)
			if got, _ := parseProperties(again); len(got) != 1 || got[key] != value {
				t.Fatalf("%q=%q is written %q and comes back %q", key, value, again, got)
			}
		}
		DecodeMetaProperties(b)
	})
}
