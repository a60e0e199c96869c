package main

import (
	"bytes"
	"os"
	"testing"
)

// TestDemoRecordPrintsTheSame holds the output of the walk-through, which scripts and docs quote. After a wanted change
// print it anew: gateway demo record --hex > testdata/demo_record_hex.golden
func TestDemoRecordPrintsTheSame(t *testing.T) {
	for _, c := range []struct {
		golden string
		args   []string
	}{
		{"testdata/demo_record.golden", []string{"record"}},
		{"testdata/demo_record_hex.golden", []string{"record", "--hex", "--key", "ORD-1042", "--now-ms", "1700000000000"}},
	} {
		want, err := os.ReadFile(c.golden)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		demo := newDemoCommand()
		demo.SetOut(&got)
		demo.SetArgs(c.args)
		if err := demo.Execute(); err != nil {
			t.Errorf("demo %v: %v", c.args, err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("demo %v prints\n%s\nwant, as in %s,\n%s", c.args, got.Bytes(), c.golden, want)
		}
	}
}

func TestDemoRecordTakesAnyKey(t *testing.T) {
	for _, key := range []string{"", "a key that is longer than the column of its value", "\x00\xff"} {
		for _, hex := range []string{"--hex=true", "--hex=false"} {
			var out bytes.Buffer
			demo := newDemoCommand()
			demo.SetOut(&out)
			demo.SetArgs([]string{"record", hex, "--key", key, "--now-ms", "0"})
			if err := demo.Execute(); err != nil {
				t.Errorf("demo record %s --key %q: %v", hex, key, err)
			}
		}
	}
}
