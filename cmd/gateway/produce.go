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
	timeout      time.Duration
}

func newProduceCommand() *cobra.Command {
	f := produceFlags{}
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Produce lines of standard input to a topic of any Kafka broker",
		Long: "Produce each line of standard input as one record. With --key-delimiter a line\n" +
			"is KEY<delimiter>VALUE. The topic is made when it is missing and the broker\n" +
			"allows that. Exits 0 only when the broker acknowledged every record.",
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
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "give a record up after this long")
	return cmd
}

// options turns the flags into client options.
func (f *produceFlags) options(topic string) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(f.broker, ",")...),
		kgo.DefaultProduceTopic(topic),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordDeliveryTimeout(f.timeout),
		kgo.ProducerBatchMaxBytes(1 << 20),
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

	var (
		mu     sync.Mutex
		first  error
		acked  int
		failed int
	)
	promise := func(_ *kgo.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			acked++
			return
		}
		failed++
		if first == nil {
			first = err
		}
	}
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		line, readErr := reader.ReadBytes('\n')
		if len(line) > 0 && (readErr == nil || errors.Is(readErr, io.EOF)) {
			r, err := f.record(trimLineEnd(line), headers)
			if err != nil {
				return &exitError{Code: exitUsage, Err: err}
			}
			client.Produce(ctx, r, promise)
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return &exitError{Code: exitFailed, Err: fmt.Errorf("standard input: %w", readErr)}
		}
	}
	if err := client.Flush(ctx); err != nil {
		return &exitError{Code: exitFailed, Err: err}
	}
	mu.Lock()
	defer mu.Unlock()
	if first != nil {
		return &exitError{Code: exitFailed, Err: fmt.Errorf("%d of %d records were not acknowledged: %w", failed, failed+acked, first)}
	}
	if f, ok := report.(*os.File); ok && isTerminal(f) {
		fmt.Fprintf(report, "%d records acknowledged\n", acked)
	}
	return nil
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
