package wire

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/groups/share"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/txn"
)

// TestConfigsPage holds docs/configs.md against the tables; -rewrite writes it.
func TestConfigsPage(t *testing.T) { wantPage(t, "configs.md", configsPage(), "Page") }

// TestLimitsPage holds docs/limits.md against the limits; -rewrite writes it.
func TestLimitsPage(t *testing.T) { wantPage(t, "limits.md", limitsPage(), "Page") }

// wantPage holds a page of docs against what it should be; -rewrite writes it. run is the test to run for that.
func wantPage(t *testing.T, name, want, run string) {
	t.Helper()
	file := filepath.Join("..", "docs", name)
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A checkout may have changed the line ends.
	if strings.ReplaceAll(string(got), "\r\n", "\n") != want {
		t.Errorf("%s is not what the program says; run go test ./wire -run %s -rewrite", file, run)
	}
}

func configsPage() string {
	var w strings.Builder
	w.WriteString("# Configs\n\n" +
		"This page is made from the program's own tables (`go test ./wire -run Page -rewrite`). Names, types, defaults and\n" +
		"valid values are those of Apache Kafka 4.4; what begins with `gateway.` is ours. The same tables answer\n" +
		"DescribeConfigs, so `kafka-configs.sh --describe --all` shows what holds.\n\n" +
		"A value is looked for in this order: on the topic; set for this broker while it runs; set for all brokers while\n" +
		"they run; the command line, the environment, the file; the default.\n\n" +
		"## Topic configs\n\n" +
		"Set with a topic's creation, or later by IncrementalAlterConfigs; a change holds from the next append or\n" +
		"roll on. The broker configs in the fourth column give topics their default, the first that is set wins.\n" +
		"Those of retention and of cleaning hold from the next look of the cleaner on.\n\n" +
		"| name | default | valid | broker configs | |\n| --- | --- | --- | --- | --- |\n")
	defs := storage.TopicConfigs()
	for i := range defs {
		d := &defs[i]
		var synonyms []string
		for _, y := range d.Synonyms {
			synonyms = append(synonyms, "`"+y.Name+"`")
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s | %s |\n", d.Name, defaultText(d), validText(d), strings.Join(synonyms, ", "), cell(d.Doc))
	}
	w.WriteString("\n## Configs of this gateway\n\n| name | default | valid | |\n| --- | --- | --- | --- |\n")
	for i := range honouredConfigs {
		if d := &honouredConfigs[i].ConfigDef; strings.HasPrefix(d.Name, "gateway.") {
			fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", d.Name, defaultText(d), validText(d), cell(d.Doc))
		}
	}
	w.WriteString("\n## Broker configs\n\n" +
		"Changed while it runs: for all brokers, or for one by its id, by IncrementalAlterConfigs; it is kept and holds again\n" +
		"after a restart. Where that says no, the file, the environment or the command line is the place.\n\n" +
		"As in Kafka's own quickstart file, the replication factors of internal topics are set to 1, `node.id` to 1 and\n" +
		"`process.roles` to both; `listeners` is 127.0.0.1:9092, the data directory is ./gateway-data, and `serve` without a\n" +
		"file sets `group.initial.rebalance.delay.ms` to 0. Set otherwise, that holds.\n\n" +
		"| name | default | valid | changed while it runs | |\n| --- | --- | --- | --- | --- |\n")
	for i := range honouredConfigs {
		if d := &honouredConfigs[i]; !strings.HasPrefix(d.Name, "gateway.") {
			fmt.Fprintf(&w, "| `%s` | %s | %s | %s | %s |\n", d.Name, defaultText(&d.ConfigDef), validText(&d.ConfigDef), d.dynamic.text(), cell(d.Doc))
		}
	}
	w.WriteString("\n## Configs of one listener\n\n" +
		"For the listener NAME as `listener.name.NAME.CONFIG`, or where it says so for one SASL mechanism of it as\n" +
		"`listener.name.NAME.MECHANISM.CONFIG`, with name and mechanism in lower case. They hold from the next start on.\n\n" +
		"| config | for a mechanism | |\n| --- | --- | --- |\n")
	for _, o := range ofListener {
		byMechanism, doc := "no", o.doc
		if o.needed {
			byMechanism = "always"
		} else if o.byMechanism {
			byMechanism = "or for all"
		}
		if doc == "" {
			d, _ := brokerConfigDef(o.name)
			doc = d.Doc
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s |\n", o.name, byMechanism, cell(doc))
	}
	w.WriteString("\n## Configs of groups\n\n" +
		"Set for a group's name; the broker configs give the default, and those with `.min.` and `.max.` in their name the\n" +
		"bounds. Kept and described; the coordinator does not follow them yet.\n\n" +
		"| name | default | valid | broker config | |\n| --- | --- | --- | --- | --- |\n")
	for i := range groupConfigs {
		d, broker := &groupConfigs[i], ""
		if len(d.Synonyms) > 0 {
			broker = "`" + d.Synonyms[0].Name + "`"
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s | %s |\n", d.Name, defaultText(d), validText(d), broker, cell(d.Doc))
	}
	w.WriteString("\n## Configs of client metrics\n\nKept and described; clients are not asked for metrics yet.\n\n" +
		"| name | default | valid | |\n| --- | --- | --- | --- |\n")
	for i := range clientMetricsConfigs {
		d := &clientMetricsConfigs[i]
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", d.Name, defaultText(d), validText(d), cell(d.Doc))
	}
	w.WriteString("\n## Logger\n\n`root` is the whole log; its level is one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL and holds until the process\nends.\n" +
		"\n## Broker configs without effect\n\n" +
		"Kafka has them, a file may set them, and DescribeConfigs reports them; nothing here follows them. Mind\n" +
		"`log.cleaner.enable`: until 5.0 Kafka compacts nothing when it is false, here compaction goes on.\n\n" +
		"| name | default | valid | changed while it runs |\n| --- | --- | --- | --- |\n")
	for i := range inertConfigs {
		d := &inertConfigs[i]
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", d.Name, defaultText(&d.ConfigDef), validText(&d.ConfigDef), d.dynamic.text())
	}
	return w.String()
}

// text says where a config is changed while the broker runs.
func (c dynamicClass) text() string {
	switch c {
	case clusterWide:
		return "all or one"
	case perBroker:
		return "one"
	}
	return "no"
}

func defaultText(d *storage.ConfigDef) string {
	switch {
	case !d.HasDefault:
		return "none"
	case d.Default == "":
		return "empty"
	}
	return "`" + cell(d.Default) + "`"
}

// validText says what values a config takes: a type, and what of it.
func validText(d *storage.ConfigDef) string {
	if d.ValidText == "" {
		return d.Type.String()
	}
	return d.Type.String() + " " + cell(d.ValidText)
}

// cell makes a text fit into a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`).Replace(s)
}

func limitsPage() string {
	var w strings.Builder
	byDefault := func(name string) string {
		d, ok := brokerConfigDef(name)
		if !ok {
			panic("no broker config " + name)
		}
		return fmt.Sprintf("%s by default (`%s`)", number(d.Default), name)
	}
	topicDefault := func(name string) string {
		d, ok := storage.TopicConfigDef(name)
		if !ok {
			panic("no topic config " + name)
		}
		return fmt.Sprintf("%s by default (`%s`)", number(d.Default), name)
	}
	c, err := NewBrokerConfig(nil)
	if err != nil {
		panic(err)
	}
	s := &Server{maxFrame: int32(c.Int("socket.request.max.bytes"))}
	w.WriteString("# Limits\n\n" +
		"This page is made from the program's own limits (`go test ./wire -run Page -rewrite`).\n\n" +
		"## Frames\n\n" +
		"The length of a frame is checked before it is read; a longer one closes the connection. Kafka has one limit for all\n" +
		"keys, `socket.request.max.bytes`; here it is the limit of Produce, and of the others where it is lower than theirs.\n" +
		"`socket.request.max.bytes` may be changed, the others not.\n\n| key | API | bytes |\n| ---: | --- | ---: |\n")
	for _, k := range kafkaKeys {
		if apis.find(k.key) != nil {
			fmt.Fprintf(&w, "| %d | %s | %s |\n", k.key, k.name, number(fmt.Sprint(s.frameLimit(k.key))))
		}
	}
	fmt.Fprintf(&w, "\nA request with a limit above %s has at most %s array elements in all.\n", number(fmt.Sprint(otherFrameLimit)), number(fmt.Sprint(maxElements)))
	fmt.Fprintf(&w, "\nOn a listener with SASL, a token before authentication has at most the bytes of `sasl.server.max.receive.size`, by\ndefault %s, and every other frame %s.\n",
		number(c.String("sasl.server.max.receive.size")), number(fmt.Sprint(readBufferSize)))
	w.WriteString("\n## Memory, files and connections\n\n| what | limit | beyond it |\n| --- | --- | --- |\n")
	for _, row := range [][3]string{
		{"bytes of requests under way", byDefault("gateway.request.memory.bytes"), fmt.Sprintf("further frames are not read until there is room; meanwhile a client that sends less than %s bytes a second of one it began is cut off, and a fetch that waits is answered with what there is. An eighth is kept for frames of at most %s bytes, and a longer one holds little more than has come when half of the rest is taken", number(fmt.Sprint(stallRate)), number(fmt.Sprint(smallDemand)))},
		{"bytes of answers on their way", byDefault("gateway.answer.memory.bytes"), fmt.Sprintf("further answers wait; meanwhile a client is cut off that takes no byte of what was sent to it for %s seconds (%s of records; else %s where Linux says that its end has no room for more), or less than %s a second, or an answer without records too slowly to have it in %s seconds. That shows over %s seconds, or over %s, which is then also the longest without a byte of such an answer as far as Linux tells, when a client was cut off in the last %s, or over %s when the gateway stops. An eighth is kept for answers of at most %s bytes, and a fetch is answered with a quarter of what is left at most. Other large answers are not made before there is room, one at a time for each processor and at most %d, which may go beyond the limit", number(fmt.Sprint(quietWindow.Seconds())), number(fmt.Sprint(stallWindow.Seconds())), number(fmt.Sprint(fullWindow.Seconds())), number(fmt.Sprint(stallRate)), number(fmt.Sprint(slowestAnswer.Seconds())), number(fmt.Sprint(stallWindow.Seconds())), number(fmt.Sprint(hurriedWindow.Seconds())), number(fmt.Sprint(hurriedFor.Seconds())), number(fmt.Sprint(stopWindow.Seconds())), number(fmt.Sprint(smallDemand)), mostTurns)},
		{"seconds that a stop waits for clients to take their answers", number(fmt.Sprint(stopPatience.Seconds())), fmt.Sprintf("those that have not are cut off, except that an answer which comes late has %v in any case; the log says how many, and the exit code is 0", latePatience)},
		{"open data files", byDefault("gateway.open.files"), "the one that was not used for the longest time is closed, and opened again when it is used"},
		{"files synced at a time", byDefault("gateway.sync.threads"), "further ones wait"},
		{"connections", byDefault("max.connections"), "further ones are not accepted until one closes"},
		{"connections from one address", byDefault("max.connections.per.ip"), "the connection is closed; `max.connections.per.ip.overrides` makes exceptions"},
		{"connections accepted a second", byDefault("max.connection.creation.rate"), "further ones wait; a quota `connection_creation_rate` of their address turns them away, and up to " + number(fmt.Sprint(mostTurnedAway)) + " of those are closed only when they have waited"},
		{"milliseconds that a connection may be silent", byDefault("connections.max.idle.ms"), "it is closed; one with a request under way is not silent"},
		{"incremental fetch sessions", byDefault("max.incremental.fetch.session.cache.slots"), "the fetch is answered without a session"},
		{"partitions in all incremental fetch sessions", number(fmt.Sprint(maxSessionPartitions)), "the fetch is answered without a session; a session that grows beyond it is dropped"},
		{"clients whose use of one kind of quota is remembered", number(fmt.Sprint(auth.MaxMeters)) + ", and " + number(fmt.Sprint(auth.MaxMeterNames)) + " bytes of their names; Kafka has no such limit", "one of them is forgotten, those first that used nothing of late"},
		{"share sessions", byDefault("group.share.max.share.sessions"), "SHARE_SESSION_LIMIT_REACHED"},
		{"partitions in all share sessions", number(fmt.Sprint(share.MaxSessionPartitions)) + "; Kafka has no such limit", "SHARE_SESSION_LIMIT_REACHED"},
	} {
		fmt.Fprintf(&w, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	w.WriteString("\nThe limits of what serves metrics over HTTP are in [metrics.md](metrics.md).\n")
	w.WriteString("\n## Requests\n\n| what | limit | beyond it |\n| --- | --- | --- |\n")
	for _, row := range [][3]string{
		{"bytes of a batch", topicDefault("max.message.bytes"), "MESSAGE_TOO_LARGE"},
		{"bytes that a compressed batch unpacks to", number(fmt.Sprint(record.MostDecompressed)) + ", or less by `max.decompressed.message.bytes`; Kafka has no limit but that", "MESSAGE_TOO_LARGE"},
		{"bytes that it unpacks to in one of the broker's own topics", number(fmt.Sprint(storage.MaxInternalBytes)) + "; Kafka has no such limit", "MESSAGE_TOO_LARGE"},
		{"bytes that it unpacks to where `compression.type` asks for another codec", number(fmt.Sprint(record.MaxRebuild)) + "; Kafka has no such limit", "MESSAGE_TOO_LARGE"},
		{"bytes that it unpacks to where compaction drops some of its records", "the larger of " + number(fmt.Sprint(record.MaxRebuild)) + " and eight times the batch; Kafka has no such limit", "it stays whole until one pass replaces all of its records, and tombstones behind it stay with it"},
		{"bytes of a key that compaction reads in a compressed batch", number(fmt.Sprint(record.MaxKey)) + "; Kafka has no such limit", "the partition is set aside: it is not compacted, nor shortened where `cleanup.policy` has both"},
		{"bytes of a fetch's answer", byDefault("fetch.max.bytes"), "less is answered, one batch at least"},
		{"partitions made by one CreateTopics", number(fmt.Sprint(maxNewPartitions)), "POLICY_VIOLATION"},
		{"partitions made by one Metadata", number(fmt.Sprint(maxNewPartitions)), "none of its topics is made"},
		{"partitions in an answer to DescribeTopicPartitions", byDefault("max.request.partition.size.limit"), "the answer has a cursor for the rest"},
		{"quotas changed by one AlterClientQuotas", number(fmt.Sprint(maxQuotaChanges)), "POLICY_VIOLATION"},
		{"ACLs made by one CreateAcls", number(fmt.Sprint(storage.MaxACLChanges)), "POLICY_VIOLATION for all of them"},
		{"ACLs deleted by one DeleteAcls", number(fmt.Sprint(storage.MaxACLChanges)), "INVALID_REQUEST for all filters"},
		{"credentials changed by one AlterUserScramCredentials", number(fmt.Sprint(storage.MaxScramChanges)), "UNKNOWN_SERVER_ERROR for all of them"},
		{"bytes of text with a committed offset", byDefault("offset.metadata.max.bytes"), "OFFSET_METADATA_TOO_LARGE"},
		{"offsets in one OffsetCommit", "what fits into one batch of `__consumer_offsets`, as in Kafka", "UNKNOWN_SERVER_ERROR for each, without a look at them"},
		{"bytes of a regular expression of ConsumerGroupHeartbeat", number(fmt.Sprint(groups.MaxRegexBytes)) + "; Kafka has no such limit", "INVALID_REGULAR_EXPRESSION"},
		{"steps that the regular expressions of a group take for all topics", number(fmt.Sprint(groups.MaxRegexSteps)) + ", instructions times bytes of names; Kafka has no such limit", "INVALID_REGULAR_EXPRESSION for a new one"},
		{"bytes of a regular expression of ListTransactions", number(fmt.Sprint(txn.MaxPatternBytes)) + "; Kafka has no such limit", "INVALID_REGULAR_EXPRESSION"},
		{"steps that it takes for all transactional ids", number(fmt.Sprint(txn.MaxPatternSteps)) + ", instructions times bytes of ids; Kafka has no such limit", "INVALID_REGULAR_EXPRESSION"},
		{"bytes that an answer says again of groups, transactions and offsets that are named more than once", number(fmt.Sprint(mostRepeated)) + "; Kafka has no such limit", fmt.Sprintf("INVALID_REQUEST for the next that is named again, unless it is a group that takes at most %d bytes more than twice its name", freeRepeat)},
		{"configs in an answer to DescribeConfigs", number(fmt.Sprint(maxDescribed)), "INVALID_REQUEST for the resources that are too many"},
		{"bytes of a config's value", number(fmt.Sprint(maxConfigValue)), "INVALID_CONFIG"},
	} {
		fmt.Fprintf(&w, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	w.WriteString(quotasText)
	return w.String()
}

// quotasText says what of Kafka's quotas is different.
const quotasText = `
## Quotas

All of Kafka's quotas are enforced, by its formulas and with its order of users and client ids. Of these it has to be known:

- ` + "`request_percentage`" + ` counts the time in which a request is decoded and worked on, in percent of one thread: of a Produce
  until it waits for the disk, of a Fetch without its waits. Of requests that change something other than records, and of
  those of members of groups and of transactions, only the decoding counts. The time of the network is not counted.
- A Fetch over its ` + "`request_percentage`" + `, and a ShareFetch over any quota, has its records and makes the client wait.
- What a client used before there was a quota for it is not counted, and a quota of an address is one of an address or
  ` + "`localhost`" + `, of no other name.
- A connection that has to wait is not read from, and is closed when that is longer than it may be silent.
`

// number groups the digits of a number.
func number(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
