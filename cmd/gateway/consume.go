package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"
)

type consumeFlags struct {
	broker     string
	offset     string
	until      string
	count      int
	partitions []int32
	exitAtEnd  bool
	format     string
	committed  bool
	timeout    time.Duration
}

func newConsumeCommand() *cobra.Command {
	f := consumeFlags{}
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print the records of a topic of any Kafka broker",
		Long: "Print one line a record, without a consumer group and without committing.\n\n" +
			"Offsets (--offset, --until) are start, end, a number, -N for the last N, or @MS\n" +
			"for the first record at or after a time in milliseconds.\n" +
			"The format knows %k key, %v value, %h headers, %t topic, %p partition, %o offset,\n" +
			"%T timestamp in milliseconds, %% and \\n, \\t. A null prints as NULL.\n\n" +
			"A partition that cannot be read is named on standard error, and the others are\n" +
			"read on. With a stop (--exit, --until) the exit code is then 3 at the end.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return consumeLines(cmd.Context(), &f, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.broker, "broker", "b", "127.0.0.1:9092", "HOST:PORT[,HOST:PORT…] of a broker")
	flags.StringVarP(&f.offset, "offset", "o", "start", "where to start: start, end, N, -N or @MS")
	flags.StringVar(&f.until, "until", "", "where to stop, exclusive, in each partition: end, N or @MS")
	flags.IntVarP(&f.count, "count", "n", 0, "stop after this many records; 0 goes on")
	flags.Int32SliceVarP(&f.partitions, "partition", "p", nil, "partitions; all without it")
	flags.BoolVarP(&f.exitAtEnd, "exit", "e", false, "stop at the end of every partition (as --until end)")
	flags.StringVarP(&f.format, "format", "f", `%v\n`, "how a record is printed")
	flags.BoolVar(&f.committed, "read-committed", false, "leave out what open and aborted transactions wrote")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Second, "give up when the broker cannot be reached at first for this long")
	return cmd
}

func consumeLines(ctx context.Context, f *consumeFlags, topic string, out, report io.Writer) error {
	c, err := newConsumption(f, topic, report)
	if err != nil {
		return err
	}
	return c.lines(ctx, out)
}

// consumption is one run of consume: where each partition starts and stops.
type consumption struct {
	flags  *consumeFlags
	topic  string
	report io.Writer // where partitions that cannot be read are named
	print  func(*bufio.Writer, *kgo.Record)
	client *kgo.Client
	admin  *kadm.Client
	start  map[int32]int64
	stop   map[int32]int64 // empty: all go on for ever
	next   map[int32]int64 // after the last record that came
	end    map[int32]int64 // of what could be read at the beginning

	faults   faults
	unlisted map[int32]error // partitions of the topic whose offsets are not known
	failed   map[int32]error // partitions that were named
}

// newConsumption checks the flags. Its client is closed by lines.
func newConsumption(f *consumeFlags, topic string, report io.Writer) (*consumption, error) {
	if f.exitAtEnd && f.until == "" {
		f.until = "end"
	}
	print, err := parseFormat(f.format)
	if err != nil {
		return nil, &exitError{Code: exitUsage, Err: err}
	}
	if f.count < 0 {
		return nil, &exitError{Code: exitUsage, Err: fmt.Errorf("--count: got %d, want 0 (no end) or more", f.count)}
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(f.broker, ",")...),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.KeepControlRecords(), // a log may end in a marker, which must count as reached
		// Without it the client would begin anew at the start of a partition that became shorter.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		// Without it a partition that cannot be read would be asked for ever without a word.
		kgo.KeepRetryableFetchErrors(),
	}
	if f.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, &exitError{Code: exitUsage, Err: err}
	}
	return &consumption{
		flags: f, topic: topic, report: report, print: print, client: client, admin: kadm.NewClient(client),
		faults:   faults{client: client, topic: topic, limit: faultLimit, of: map[int32]*fault{}},
		unlisted: map[int32]error{}, failed: map[int32]error{},
	}, nil
}

// lines prints the records to out.
func (c *consumption) lines(ctx context.Context, out io.Writer) error {
	defer c.client.Close()
	if err := reach(ctx, c.client, c.flags.broker, c.flags.timeout); err != nil {
		return err
	}
	defer c.faults.stop()
	if err := c.resolve(ctx); err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 64<<10)
	err := c.run(ctx, w)
	if flushErr := w.Flush(); err == nil && flushErr != nil {
		err = &exitError{Code: exitFailed, Err: fmt.Errorf("output: %w", flushErr)}
	}
	return err
}

// bounded reports whether each partition has a stop.
func (c *consumption) bounded() bool { return c.flags.until != "" }

// run prints until every partition is at its stop, the count is reached, or ctx
// ends.
func (c *consumption) run(ctx context.Context, w *bufio.Writer) error {
	assign := map[int32]kgo.Offset{}
	for p, o := range c.start {
		if stop, bounded := c.stop[p]; bounded && o >= stop {
			continue
		}
		// There is no fetching from beyond the end; records before the start are left out below.
		assign[p] = kgo.NewOffset().At(min(o, c.end[p]))
	}
	if len(assign) == 0 {
		return c.unread()
	}
	c.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{c.topic: maps.Clone(assign)})
	c.next = maps.Clone(c.start)
	printed := 0
	for len(assign) > 0 {
		fetches := c.poll(ctx)
		if ctx.Err() != nil {
			return nil // interrupted: what was printed stands
		}
		if fetches == nil {
			if err := c.pastGaps(ctx, assign); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		for iter := fetches.RecordIter(); !iter.Done(); {
			r := iter.Next()
			c.next[r.Partition] = max(c.next[r.Partition], r.Offset+1)
			stop, bounded := c.stop[r.Partition]
			if bounded && r.Offset >= stop {
				delete(assign, r.Partition)
				continue
			}
			if !r.Attrs.IsControl() && r.Offset >= c.start[r.Partition] {
				c.print(w, r)
				if printed++; printed == c.flags.count {
					return nil
				}
			}
			if bounded && r.Offset+1 >= stop {
				delete(assign, r.Partition)
			}
		}
		if err := w.Flush(); err != nil {
			return &exitError{Code: exitFailed, Err: err}
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if len(p.Records) > 0 {
				c.faults.read(p.Partition)
			}
		})
		for _, e := range fetches.Errors() {
			if err := c.failing(e.Partition, e.Err, assign); err != nil {
				return err
			}
		}
	}
	return c.unread()
}

// poll waits for records; when there are stops to reach, not for long: nil is that nothing came.
func (c *consumption) poll(ctx context.Context) kgo.Fetches {
	if !c.bounded() {
		return c.client.PollFetches(ctx)
	}
	waiting, cancel := context.WithTimeout(ctx, gapWait)
	defer cancel()
	fetches := c.client.PollFetches(waiting)
	if errors.Is(fetches.Err0(), context.DeadlineExceeded) {
		return nil
	}
	return fetches
}

// parseFormat compiles a --format.
func parseFormat(format string) (func(*bufio.Writer, *kgo.Record), error) {
	var parts []func(*bufio.Writer, *kgo.Record)
	literal := func(s string) {
		parts = append(parts, func(w *bufio.Writer, _ *kgo.Record) { _, _ = w.WriteString(s) })
	}
	verbs := map[byte]func(*bufio.Writer, *kgo.Record){
		'k': func(w *bufio.Writer, r *kgo.Record) { writeNullable(w, r.Key) },
		'v': func(w *bufio.Writer, r *kgo.Record) { writeNullable(w, r.Value) },
		't': func(w *bufio.Writer, r *kgo.Record) { _, _ = w.WriteString(r.Topic) },
		'p': func(w *bufio.Writer, r *kgo.Record) { writeInt(w, int64(r.Partition)) },
		'o': func(w *bufio.Writer, r *kgo.Record) { writeInt(w, r.Offset) },
		'T': func(w *bufio.Writer, r *kgo.Record) { writeInt(w, r.Timestamp.UnixMilli()) },
		'h': writeHeaders,
	}
	for i := 0; i < len(format); i++ {
		switch c := format[i]; {
		case c == '%' && i+1 < len(format):
			i++
			if verb, ok := verbs[format[i]]; ok {
				parts = append(parts, verb)
			} else if format[i] == '%' {
				literal("%")
			} else {
				return nil, fmt.Errorf("--format: unknown %%%c, want %%k %%v %%h %%t %%p %%o %%T or %%%%", format[i])
			}
		case c == '\\' && i+1 < len(format):
			i++
			switch format[i] {
			case 'n':
				literal("\n")
			case 't':
				literal("\t")
			default:
				literal(format[i : i+1])
			}
		default:
			literal(format[i : i+1])
		}
	}
	return func(w *bufio.Writer, r *kgo.Record) {
		for _, p := range parts {
			p(w, r)
		}
	}, nil
}

func writeNullable(w *bufio.Writer, b []byte) {
	if b == nil {
		_, _ = w.WriteString("NULL")
		return
	}
	_, _ = w.Write(b)
}

func writeInt(w *bufio.Writer, n int64) {
	_, _ = w.Write(strconv.AppendInt(w.AvailableBuffer(), n, 10))
}

func writeHeaders(w *bufio.Writer, r *kgo.Record) {
	for i, h := range r.Headers {
		if i > 0 {
			_ = w.WriteByte(',')
		}
		_, _ = w.WriteString(h.Key)
		_ = w.WriteByte('=')
		writeNullable(w, h.Value)
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
