// Package features is what the Go clients do with a broker, and the report on it (see ../../README.md).
package features

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Client does one thing with a broker a method, in the way the client's own documentation would.
type Client interface {
	Create(ctx context.Context, topic string, partitions int, configs map[string]string) error
	// Partitions returns how many the metadata names, 0 when there is no such topic.
	Partitions(ctx context.Context, topic string) (int, error)
	Delete(ctx context.Context, topic string) error
	// Produce returns when all records are acknowledged.
	Produce(ctx context.Context, topic string, records []Record, codec string, idempotent bool) error
	// Read returns the records of each partition from the offset given to its end, in order.
	Read(ctx context.Context, topic string, starts map[int]int64) ([]Record, error)
	Earliest(ctx context.Context, topic string, partition int) (int64, error)
	// OffsetForTime returns the offset of the first record that is not older.
	OffsetForTime(ctx context.Context, topic string, partition int, t time.Time) (int64, error)
	Configs(ctx context.Context, topic string) (map[string]Config, error)
	// Alter changes these configs and no others.
	Alter(ctx context.Context, topic string, configs map[string]string) error
	DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error
	// Commit and Committed are those of a consumer that has assigned the partition to itself.
	Commit(ctx context.Context, group, topic string, partition int, offset int64) error
	// Transact produces records and commits the offset for the group in one transaction, which it commits or aborts.
	Transact(ctx context.Context, id, topic string, records []Record, group string, offset int64, commit bool) error
	// ReadCommitted returns the first records of partition 0 that a reader of committed records gets.
	ReadCommitted(ctx context.Context, topic string, n int) ([]Record, error)
	// Committed returns -1 when there is none.
	Committed(ctx context.Context, group, topic string, partition int) (int64, error)
	GroupClient
}

// Record is one that is produced, or was read.
type Record struct {
	Partition  int
	Key, Value []byte // nil is null
	Headers    []Header
	Time       time.Time // of whole milliseconds
	Offset     int64     // of one that was read
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Config is a topic's config.
type Config struct {
	Value   string
	Default bool // nobody has set it
}

// Unsupported is the error of a method that the client has no call for.
type Unsupported string

func (u Unsupported) Error() string { return string(u) }

// all are the features, named as in the file features.
var all = []struct {
	name string
	run  func(ctx context.Context, c Client, topic string) error
}{
	{"create-topic", createTopic},
	{"produce", produce},
	{"codec-none", codec("none")},
	{"codec-gzip", codec("gzip")},
	{"codec-snappy", codec("snappy")},
	{"codec-lz4", codec("lz4")},
	{"codec-zstd", codec("zstd")},
	{"consume-from-start", consumeFromStart},
	{"resume-by-timestamp", resumeByTimestamp},
	{"list-configs", listConfigs},
	{"alter-configs", alterConfigs},
	{"delete-records", deleteRecords},
	{"idempotent", idempotent},
	{"delete-topic", deleteTopic},
	{"commit-resume", commitResume},
	{"transaction", transaction},
	{"group-balance", groupBalance(Eager)},
	{"group-join-leave", groupJoinLeave},
	{"group-kill", groupKill},
	{"group-static", groupStatic},
	{"group-cooperative", groupCooperative},
	{"group-new-protocol", groupBalance(Server)},
	{"group-admin", groupAdmin},
}

func createTopic(ctx context.Context, c Client, topic string) error {
	return create(ctx, c, topic, 3, nil)
}

func produce(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 3, nil); err != nil {
		return err
	}
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	now := time.Now().Truncate(time.Millisecond)
	var records []Record
	for p := range 3 {
		key := fmt.Appendf(nil, "key %d", p)
		headers := []Header{{"h1", []byte("x")}, {"h2", []byte{}}, {"h1", []byte("again")}}
		records = append(records,
			Record{Partition: p, Key: key, Value: []byte("value"), Headers: headers, Time: now},
			Record{Partition: p, Key: key, Time: now.Add(1 * time.Millisecond)},
			Record{Partition: p, Value: []byte("no key"), Time: now.Add(2 * time.Millisecond)},
			Record{Partition: p, Key: []byte{}, Value: []byte{}, Headers: []Header{{"binary", bytes}}, Time: now.Add(3 * time.Millisecond)},
		)
	}
	return there(ctx, c, topic, records, "none", false)
}

func codec(name string) func(context.Context, Client, string) error {
	return func(ctx context.Context, c Client, topic string) error {
		if err := create(ctx, c, topic, 1, nil); err != nil {
			return err
		}
		records := plain(100, 0, time.Millisecond)
		for i := range records {
			records[i].Value = fmt.Appendf(nil, "value %04d of many that look the same, the same, the same, the same", i)
		}
		return there(ctx, c, topic, records, name, false)
	}
}

func consumeFromStart(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 3, nil); err != nil {
		return err
	}
	records := slices.Concat(plain(50, 0, time.Millisecond), plain(50, 1, time.Millisecond), plain(50, 2, time.Millisecond))
	if err := c.Produce(ctx, topic, records, "none", false); err != nil {
		return err
	}
	starts := map[int]int64{}
	for p := range 3 {
		var err error
		if starts[p], err = c.Earliest(ctx, topic, p); err != nil {
			return err
		}
	}
	got, err := c.Read(ctx, topic, starts)
	return cmp.Or(err, same(got, records))
}

func resumeByTimestamp(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 1, nil); err != nil {
		return err
	}
	records := plain(10, 0, time.Second)
	if err := c.Produce(ctx, topic, records, "none", false); err != nil {
		return err
	}
	offset, err := c.OffsetForTime(ctx, topic, 0, records[4].Time.Add(-500*time.Millisecond))
	if err := cmp.Or(err, equal("offset of the first record from that time on", offset, 4)); err != nil {
		return err
	}
	got, err := c.Read(ctx, topic, map[int]int64{0: offset})
	return cmp.Or(err, same(got, records[4:]))
}

func listConfigs(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 1, map[string]string{"retention.ms": "86400000"}); err != nil {
		return err
	}
	configs, err := c.Configs(ctx, topic)
	return cmp.Or(err,
		equal("retention.ms", configs["retention.ms"], Config{"86400000", false}),
		equal("cleanup.policy", configs["cleanup.policy"], Config{"delete", true}))
}

func alterConfigs(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 1, map[string]string{"retention.ms": "86400000", "max.message.bytes": "100000"}); err != nil {
		return err
	}
	if err := c.Alter(ctx, topic, map[string]string{"retention.ms": "3600000"}); err != nil {
		return err
	}
	changed := func(configs map[string]Config) bool { return configs["retention.ms"].Value != "86400000" }
	configs, err := until(ctx, changed, func() (map[string]Config, error) { return c.Configs(ctx, topic) })
	return cmp.Or(err,
		equal("retention.ms", configs["retention.ms"], Config{"3600000", false}),
		equal("max.message.bytes", configs["max.message.bytes"], Config{"100000", false}))
}

func deleteRecords(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 1, nil); err != nil {
		return err
	}
	records := plain(10, 0, time.Millisecond)
	if err := c.Produce(ctx, topic, records, "none", false); err != nil {
		return err
	}
	if err := c.DeleteBefore(ctx, topic, 0, 4); err != nil {
		return err
	}
	earliest, err := c.Earliest(ctx, topic, 0)
	if err := cmp.Or(err, equal("earliest offset", earliest, 4)); err != nil {
		return err
	}
	got, err := c.Read(ctx, topic, map[int]int64{0: earliest})
	return cmp.Or(err, same(got, records[4:]))
}

func idempotent(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 1, nil); err != nil {
		return err
	}
	return there(ctx, c, topic, plain(1000, 0, time.Millisecond), "none", true)
}

func deleteTopic(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 3, nil); err != nil {
		return err
	}
	if err := c.Delete(ctx, topic); err != nil {
		return err
	}
	gone := func(n int) bool { return n == 0 }
	n, err := until(ctx, gone, func() (int, error) { return c.Partitions(ctx, topic) })
	return cmp.Or(err, equal("partitions", n, 0))
}

func commitResume(ctx context.Context, c Client, topic string) error {
	group := topic + "-group"
	if err := create(ctx, c, topic, 1, nil); err != nil {
		return err
	}
	records := plain(10, 0, time.Millisecond)
	if err := c.Produce(ctx, topic, records, "none", false); err != nil {
		return err
	}
	if err := c.Commit(ctx, group, topic, 0, 5); err != nil {
		return err
	}
	offset, err := c.Committed(ctx, group, topic, 0)
	if err := cmp.Or(err, equal("committed offset", offset, 5)); err != nil {
		return err
	}
	got, err := c.Read(ctx, topic, map[int]int64{0: offset})
	return cmp.Or(err, same(got, records[5:]))
}

func transaction(ctx context.Context, c Client, topic string) error {
	if err := create(ctx, c, topic, 1, nil); err != nil {
		return err
	}
	records, group := plain(30, 0, time.Millisecond), topic+"-group"
	for i, commit := range []bool{true, false, true} {
		if err := c.Transact(ctx, topic+"-id", topic, records[10*i:10*(i+1)], group, int64(10+i), commit); err != nil {
			return err
		}
		// That of the one that was aborted does not count.
		want := []int64{10, 10, 12}[i]
		counts := func(offset int64) bool { return offset == want }
		offset, err := until(ctx, counts, func() (int64, error) { return c.Committed(ctx, group, topic, 0) })
		if err = cmp.Or(err, equal("committed offset", offset, want)); err != nil {
			return err
		}
	}
	got, err := c.ReadCommitted(ctx, topic, 20)
	return cmp.Or(err, same(got, slices.Concat(records[:10], records[20:])))
}

// create makes a topic, and waits until it is in the metadata.
func create(ctx context.Context, c Client, topic string, partitions int, configs map[string]string) error {
	if err := c.Create(ctx, topic, partitions, configs); err != nil {
		return err
	}
	there := func(n int) bool { return n > 0 }
	n, err := until(ctx, there, func() (int, error) { return c.Partitions(ctx, topic) })
	return cmp.Or(err, equal("partitions", n, partitions))
}

// until asks again until the answer is done, or ctx is: Kafka's controller answers a moment before its brokers know.
func until[T any](ctx context.Context, done func(T) bool, ask func() (T, error)) (T, error) {
	answer, err := ask()
	for err == nil && !done(answer) && ctx.Err() == nil {
		answer, err = ask()
	}
	return answer, err
}

// there produces records, and reads them back from the start of each of their partitions.
func there(ctx context.Context, c Client, topic string, records []Record, codec string, idempotent bool) error {
	if err := c.Produce(ctx, topic, records, codec, idempotent); err != nil {
		return err
	}
	starts := map[int]int64{}
	for _, r := range records {
		starts[r.Partition] = 0
	}
	got, err := c.Read(ctx, topic, starts)
	return cmp.Or(err, same(got, records))
}

// plain returns n records without headers, step apart.
func plain(n, partition int, step time.Duration) []Record {
	records := make([]Record, n)
	first := time.Now().Truncate(time.Millisecond).Add(-time.Duration(n) * step)
	for i := range records {
		records[i] = Record{
			Partition: partition,
			Key:       fmt.Appendf(nil, "key %d", i),
			Value:     fmt.Appendf(nil, "value %d", i),
			Time:      first.Add(time.Duration(i) * step),
		}
	}
	return records
}

func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

// same compares records by all but their offsets; those of a partition must be in order.
func same(got, want []Record) error {
	slices.SortStableFunc(got, func(a, b Record) int { return a.Partition - b.Partition })
	for i := range min(len(got), len(want)) {
		if g, w := show(got[i]), show(want[i]); g != w {
			return fmt.Errorf("record: got %s, want %s", g, w)
		}
	}
	return equal("number of records", len(got), len(want))
}

func show(r Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "partition %d at %d: %s=%s", r.Partition, r.Time.UnixMilli(), quoted(r.Key), quoted(r.Value))
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %q=%q", h.Key, h.Value)
	}
	return b.String()
}

// quoted tells null from empty.
func quoted(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// limit bounds each feature.
const limit = 2 * time.Minute

// Main prints the report on the client that dial returns. Its version is that of module in go.mod. With GROUP and TOPIC
// after the other arguments it is the process that a feature kills.
func Main(name, module string, dial func(address string) (Client, error)) {
	flag.Parse()
	if flag.NArg() != 2 && flag.NArg() != 4 {
		fmt.Fprintln(os.Stderr, "want arguments ADDRESS PREFIX [GROUP TOPIC]")
		os.Exit(2)
	}
	if flag.NArg() == 2 {
		fmt.Println("version", name, version(module))
	}
	c, err := dial(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if flag.NArg() == 4 {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		fmt.Fprintln(os.Stderr, victim(ctx, c, flag.Arg(2), flag.Arg(3)))
		os.Exit(1)
	}
	for _, f := range all {
		fmt.Println(f.name, result(f.run, c, flag.Arg(1)+"-"+f.name))
	}
}

// result runs a feature and says how it went.
func result(run func(context.Context, Client, string) error, c Client, topic string) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := run(ctx, c, topic)
	if lacks := Unsupported(""); errors.As(err, &lacks) {
		return "unsupported " + string(lacks)
	}
	if err != nil {
		return "fail " + strings.Join(strings.Fields(err.Error()), " ")
	}
	return "pass"
}

// version returns the version of a module that this program was built with.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return "of no version"
}
