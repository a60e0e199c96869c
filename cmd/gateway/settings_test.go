package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway"
)

// options parses args as serve does and returns what would be started.
func options(t *testing.T, environ []string, args ...string) (gateway.Options, []string, error) {
	t.Helper()
	var f serveFlags
	cmd := newServeCommandWith(&f)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return serveOptions(cmd, &f, environ)
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagWinsOverEnvironmentOverFile(t *testing.T) {
	file := writeFile(t, "num.partitions=2\nlog.retention.ms : 5\nmessage.max.bytes=2000000\n")
	o, warnings, err := options(t, []string{"KAFKA_NUM_PARTITIONS=3", "KAFKA_LOG_RETENTION_MS=6", "HOME=/root"},
		"--config", file, "-c", "num.partitions=4")
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	for key, want := range map[string]string{"num.partitions": "4", "log.retention.ms": "6", "message.max.bytes": "2000000"} {
		if got := o.Config[key]; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestServerPropertiesAsPeopleHaveThem(t *testing.T) {
	file := writeFile(t, `# a comment
process.roles=broker,controller
node.id=7
listeners=PLAINTEXT://127.0.0.1:9192,CONTROLLER://127.0.0.1:9193
controller.listener.names=CONTROLLER
log.dirs=/var/lib/kafka \
   
log.retention.hurs=5
zookeeper.connect=localhost:2181
`)
	o, warnings, err := options(t, nil, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if o.Config["node.id"] != "7" || o.Dir != "/var/lib/kafka" {
		t.Errorf("got node.id %q and directory %q, want 7 and /var/lib/kafka", o.Config["node.id"], o.Dir)
	}
	if _, set := o.Config["group.initial.rebalance.delay.ms"]; set {
		t.Error("group.initial.rebalance.delay.ms is set although there is a file")
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "log.retention.hours") || !strings.Contains(warnings[1], "zookeeper.connect") {
		t.Errorf("got warnings %q, want one naming log.retention.hours and one for zookeeper.connect", warnings)
	}
}

func TestKeysWithoutEffectAreWarnedOfWhereverTheyStand(t *testing.T) {
	const key = "num.io.threads"
	for place, c := range map[string]struct{ environ, args []string }{
		"server.properties":          {nil, []string{"--config", writeFile(t, key+"=9\n")}},
		"environment KAFKA_NUM_IO_T": {[]string{"KAFKA_NUM_IO_THREADS=9"}, nil},
		"-c " + key:                  {nil, []string{"-c", key + "=9"}},
	} {
		o, warnings, err := options(t, c.environ, c.args...)
		if err != nil || o.Config[key] != "9" {
			t.Errorf("%s: got %q, %v, want 9", place, o.Config[key], err)
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], place) || !strings.Contains(warnings[0], key+" has no effect") {
			t.Errorf("%s: got warnings %q, want one that names the place and the key", place, warnings)
		}
	}
}

func TestUnknownKeysOfOursAndOnTheCommandLineAreErrors(t *testing.T) {
	for _, args := range [][]string{
		{"-c", "num.partition=4"},
		{"-c", "novalue"},
		{"--config", writeFile(t, "gateway.durabilty=sync\n")},
	} {
		if _, _, err := options(t, nil, args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if _, _, err := options(t, []string{"KAFKA_GATEWAY_DURABILTY=sync"}); err == nil || !strings.Contains(err.Error(), "gateway.durability") {
		t.Errorf("environment: got %v, want the nearest key named", err)
	}
}

func TestWithoutAFileTheFirstRebalanceDoesNotWait(t *testing.T) {
	o, _, err := options(t, nil)
	if err != nil || o.Config["group.initial.rebalance.delay.ms"] != "0" {
		t.Errorf("got %q %v, want 0", o.Config["group.initial.rebalance.delay.ms"], err)
	}
}

func TestListenAndAdvertiseFlags(t *testing.T) {
	file := writeFile(t, "listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://h:1\n")
	o, _, err := options(t, nil, "--config", file, "--listen", "127.0.0.1:0", "--advertise", "broker:5")
	if err != nil {
		t.Fatal(err)
	}
	if o.Config["listeners"] != "PLAINTEXT://127.0.0.1:0" || o.Config["advertised.listeners"] != "PLAINTEXT://broker:5" {
		t.Errorf("got %q and %q", o.Config["listeners"], o.Config["advertised.listeners"])
	}
	o, _, err = options(t, nil, "--config", file)
	if err != nil || o.Config["listeners"] != "PLAINTEXT://0.0.0.0:9092" || o.Config["advertised.listeners"] != "PLAINTEXT://h:1" {
		t.Errorf("file alone: got %q and %q, %v", o.Config["listeners"], o.Config["advertised.listeners"], err)
	}
}

func TestAdvertisedListenersAloneAreKept(t *testing.T) {
	const advertised = "PLAINTEXT://kafka:9092"
	for _, c := range []struct{ environ, args []string }{
		{[]string{"KAFKA_ADVERTISED_LISTENERS=" + advertised}, []string{"--listen", "0.0.0.0:9092"}},
		{nil, []string{"-c", "advertised.listeners=" + advertised}},
		{nil, []string{"--config", writeFile(t, "advertised.listeners="+advertised+"\n")}},
	} {
		o, _, err := options(t, c.environ, c.args...)
		if err != nil || o.Config["advertised.listeners"] != advertised {
			t.Errorf("%q %q: got %q, %v, want %q", c.environ, c.args, o.Config["advertised.listeners"], err, advertised)
		}
	}
}

func TestFlagsWithoutSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--memory", "--memory-capacity", "0"}, {"--memory-capacity", "-5"}, {"--data-dir", ""}} {
		if _, _, err := options(t, nil, args...); err == nil || !strings.Contains(err.Error(), args[len(args)-2]) {
			t.Errorf("%q: got %v, want an error that names %s", args, err, args[len(args)-2])
		}
	}
	if _, _, err := options(t, nil, "-c", "file.delete.delay.ms=1"); err == nil || !strings.Contains(err.Error(), "log.segment.delete.delay.ms") {
		t.Errorf("a topic config: got %v, want the broker config that gives its default", err)
	}
}

func TestMemoryRefusesADataDirectory(t *testing.T) {
	if _, _, err := options(t, nil, "--memory", "--data-dir", "x"); err == nil {
		t.Error("no error")
	}
	if o, _, err := options(t, nil, "--memory"); err != nil || !o.Memory {
		t.Errorf("got memory %v, error %v", o.Memory, err)
	}
}

func TestEnvironmentKeys(t *testing.T) {
	for name, want := range map[string]string{
		"KAFKA_LOG_RETENTION_MS": "log.retention.ms", "KAFKA_A__B": "a_b", "KAFKA_A___B_C": "a-b.c",
	} {
		if got := environKey(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	s := settings{values: map[string]string{}}
	if err := s.addEnviron([]string{"KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_FOO=1", "PATH=/bin"}); err != nil {
		t.Fatal(err)
	}
	if len(s.warnings) != 1 || !strings.Contains(s.warnings[0], "KAFKA_FOO") || len(s.values) != 0 {
		t.Errorf("got warnings %q and values %v, want KAFKA_FOO warned of", s.warnings, s.values)
	}
}

func TestFormatOfConsume(t *testing.T) {
	if _, err := parseFormat("%q"); err == nil {
		t.Error("format of an unknown verb: no error")
	}
	headers, err := parseHeaders([]string{"a=1", "b="})
	if err != nil || len(headers) != 2 || headers[1].Key != "b" {
		t.Errorf("got %v %v", headers, err)
	}
	if !slices.Equal(trimLineEnd([]byte("x\r\n")), []byte("x")) || string(trimLineEnd([]byte("x"))) != "x" {
		t.Error("line ends are not trimmed")
	}
}
