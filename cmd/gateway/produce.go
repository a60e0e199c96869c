package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

type produceFlags struct {
	broker       string
	keyDelimiter string
	headers      []string
	partition    int32
	compression  string
	acks         string
	nullValue    string
	maxBytes     int32
	timeout      time.Duration
}

// maxProduceBytes bounds --max-bytes: what goes around a batch must fit into Kafka's largest request, 100 MiB, too.
const maxProduceBytes = 64 << 20

// flushTimeout is how long an interrupted produce waits for what it has read to be acknowledged.
const flushTimeout = 5 * time.Second

func newProduceCommand() *cobra.Command {
	f := produceFlags{}
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Produce lines of standard input to a topic of any Kafka broker",
		Long: "Produce each line of standard input as one record. A line ends in LF or CR LF,\n" +
			"neither of which is part of the record. With --key-delimiter a line\n" +
			"is KEY<delimiter>VALUE. The topic is made when it is missing and the broker\n" +
			"allows that. Stops at the first record that fails. Exits 0 only when the broker\n" +
			"acknowledged every record; an interrupt ends the input.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return produceLines(cmd.Context(), &f, args[0], cmd.InOrStdin(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.broker, "broker", "b", "127.0.0.1:9092", "HOST:PORT[,HOST:PORT…] of a broker")
	flags.StringVarP(&f.keyDelimiter, "key-delimiter", "K", "", "what ends the key of a line; without it records have no key")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "key=value put on every record; may be repeated")
	flags.Int32VarP(&f.partition, "partition", "p", -1, "partition; -1 lets the key, or chance, decide")
	flags.StringVarP(&f.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVar(&f.acks, "acks", "all", "0, 1 or all")
	flags.StringVar(&f.nullValue, "null", "", "a value that is this text becomes null, a tombstone")
	flags.Int32Var(&f.maxBytes, "max-bytes", 1<<20, "largest record and batch; the broker has a limit too (message.max.bytes)")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "give a record, or reaching the broker, up after this long")
	return cmd
}

// options turns the flags into client options.
func (f *produceFlags) options(topic string) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(f.broker, ",")...),
		kgo.DefaultProduceTopic(topic),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordDeliveryTimeout(f.timeout),
		kgo.ProducerBatchMaxBytes(f.maxBytes),
	}
	if f.maxBytes < 1<<10 || f.maxBytes > maxProduceBytes {
		return nil, fmt.Errorf("--max-bytes: got %d, want %d to %d", f.maxBytes, 1<<10, maxProduceBytes)
	}
	if f.timeout < time.Second {
		return nil, fmt.Errorf("--timeout: got %v, want at least 1s", f.timeout)
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[f.compression]
	if !ok {
		return nil, fmt.Errorf("--compression: got %q, want none, gzip, snappy, lz4 or zstd", f.compression)
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	switch f.acks {
	case "all", "-1":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, fmt.Errorf("--acks: got %q, want 0, 1 or all", f.acks)
	}
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

// record turns one line, without its line end, into a record.
func (f *produceFlags) record(line []byte, headers []kgo.RecordHeader) (*kgo.Record, error) {
	r := &kgo.Record{Headers: headers}
	value := string(line)
	if f.keyDelimiter != "" {
		key, rest, ok := strings.Cut(value, f.keyDelimiter)
		if !ok {
			return nil, fmt.Errorf("line %q has no key delimiter %q", value, f.keyDelimiter)
		}
		r.Key, value = []byte(key), rest
	}
	if f.nullValue == "" || value != f.nullValue {
		r.Value = []byte(value)
	}
	if f.partition >= 0 {
		r.Partition = f.partition
	}
	return r, nil
}

func produceLines(ctx context.Context, f *produceFlags, topic string, in io.Reader, report io.Writer) error {
	opts, err := f.options(topic)
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	headers, err := parseHeaders(f.headers)
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	defer client.Close()
	if err := reach(ctx, client, f.broker, f.timeout); err != nil {
		return err
	}

	// What was read is sent although an interrupt came, for a while.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTimeout, cancel) })()

	p := production{failed: make(chan struct{})}
	inputErr := p.send(ctx, sending, client, f, headers, in)
	if err := client.Flush(sending); err != nil && ctx.Err() == nil {
		return &exitError{Code: exitFailed, Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.sent - p.acked; n > 0 {
		cause := p.first
		if cause == nil {
			cause = errors.New("interrupted")
		}
		inputErr = &exitError{Code: exitFailed, Err: fmt.Errorf("%d of %d records were not acknowledged: %w", n, p.sent, cause)}
	}
	if f, ok := report.(*os.File); ok && isTerminal(f) && inputErr == nil {
		fmt.Fprintf(report, "%d records acknowledged\n", p.acked)
	}
	return inputErr
}

// production counts the records of one run of produce.
type production struct {
	sent int // by send only, read when it has returned

	mu     sync.Mutex
	acked  int           // guarded by mu
	first  error         // of the record that failed first; guarded by mu
	failed chan struct{} // closed when there is one
}

// inputLine is a line of the input, or why there are no more.
type inputLine struct {
	text []byte
	err  error
}

// send produces lines until the input ends, one of them fails, or ctx ends. The error is one of the input.
func (p *production) send(ctx, sending context.Context, client *kgo.Client, f *produceFlags, headers []kgo.RecordHeader, in io.Reader) error {
	// A read of a terminal cannot be interrupted, so it has a goroutine of its own, which ends with the input or,
	// when nobody takes its line any more, with the process.
	lines, done := make(chan inputLine), make(chan struct{})
	defer close(done)
	go readLines(in, int(f.maxBytes), lines, done)
	for number := 1; ; number++ {
		var line inputLine
		select {
		case line = <-lines:
		case <-ctx.Done():
			return nil
		case <-p.failed:
			return nil
		}
		if errors.Is(line.err, io.EOF) {
			return nil
		}
		if line.err != nil {
			return &exitError{Code: exitFailed, Err: fmt.Errorf("standard input: line %d: %w", number, line.err)}
		}
		r, err := f.record(line.text, headers)
		if err != nil {
			return &exitError{Code: exitUsage, Err: fmt.Errorf("standard input: line %d: %w", number, err)}
		}
		p.sent++
		client.Produce(sending, r, func(_ *kgo.Record, err error) { p.finished(number, err) })
	}
}

// finished counts the record of a line that was acknowledged or has failed.
func (p *production) finished(line int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.acked++
	case p.first == nil:
		p.first = fmt.Errorf("line %d: %w", line, err)
		close(p.failed)
	}
}

// readLines hands over the lines of in without their ends, then io.EOF or another error, until done is closed.
func readLines(in io.Reader, longest int, lines chan<- inputLine, done <-chan struct{}) {
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		text, err := readLine(reader, longest)
		if len(text) > 0 && errors.Is(err, io.EOF) {
			err = nil // the last line has no end; the next read says io.EOF again
		}
		select {
		case lines <- inputLine{text: trimLineEnd(text), err: err}:
		case <-done:
			return
		}
		if err != nil {
			return
		}
	}
}

// readLine reads up to and with the next line end. A line longer than longest is an error, before it is read to its
// end.
func readLine(r *bufio.Reader, longest int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(trimLineEnd(line)) > longest {
			return nil, fmt.Errorf("got more than %d bytes, want at most that (--max-bytes)", longest)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// reach waits until a broker answers, at most for the timeout; the error says why none does.
func reach(ctx context.Context, client *kgo.Client, broker string, timeout time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last error
	for {
		err := client.Ping(waiting)
		if err == nil {
			return nil
		}
		if last == nil || waiting.Err() == nil {
			last = err
		}
		select {
		case <-waiting.Done():
			if ctx.Err() != nil {
				return &exitError{Code: exitFailed, Err: errors.New("interrupted")}
			}
			return &exitError{Code: exitFailed, Err: fmt.Errorf("broker %s cannot be reached: %w", broker, last)}
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// trimLineEnd takes one \n or \r\n off.
func trimLineEnd(line []byte) []byte {
	line = trimSuffix(line, '\n')
	return trimSuffix(line, '\r')
}

func trimSuffix(b []byte, c byte) []byte {
	if n := len(b); n > 0 && b[n-1] == c {
		return b[:n-1]
	}
	return b
}

// parseHeaders reads key=value pairs.
func parseHeaders(pairs []string) ([]kgo.RecordHeader, error) {
	var out []kgo.RecordHeader
	for _, p := range pairs {
		key, value, ok := strings.Cut(p, "=")
		if !ok {
			return nil, fmt.Errorf("--header: got %q, want key=value", p)
		}
		out = append(out, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	return out, nil
}
