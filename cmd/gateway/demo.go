package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// newDemoCommand is the parent of the walk-throughs. Each runs the code that the server runs, on made-up data and a
// given clock, and prints the same every time.
func newDemoCommand() *cobra.Command {
	demo := &cobra.Command{
		Use:   "demo",
		Short: "Walk through a part of the server on made-up data",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	demo.AddCommand(newDemoRecordCommand(), newDemoGroupsCommand(), newDemoCleanerCommand())
	return demo
}

// walkThrough is what the walk-throughs have in common: they print to out, and have a clock.
type walkThrough struct {
	out   io.Writer
	nowMs int64
}

// command returns the command of a walk-through, without the flags of its own.
func (w *walkThrough) command(name, short, long string, run func() error) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if w.out = cmd.OutOrStdout(); w.nowMs < 0 {
				return &exitError{Code: exitUsage, Err: fmt.Errorf("--now-ms: got %d, want at least 0", w.nowMs)}
			}
			return run()
		},
	}
	cmd.Flags().Int64Var(&w.nowMs, "now-ms", demoNowMs, "clock of the server, in milliseconds")
	return cmd
}

func (w *walkThrough) printf(format string, args ...any) { fmt.Fprintf(w.out, format, args...) }

func (w *walkThrough) clock() time.Time { return time.UnixMilli(w.nowMs) }

// eachRecord calls f with each record of a log from offset on.
func eachRecord(l *storage.Log, offset int64, f func(record.Record)) error {
	var reader record.Reader
	for {
		res, err := l.Read(nil, storage.ReadRequest{Offset: offset, MaxBytes: 1 << 20, MinOneBatch: true})
		if err != nil || len(res.Data) == 0 {
			return err
		}
		for rest := res.Data; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				return err
			}
			for r, err := range reader.Records(b) {
				if err != nil {
					return err
				}
				f(r)
			}
			offset = b.NextOffset()
		}
	}
}

// liveKeys counts the keys of a log whose last record has a value.
func liveKeys(l *storage.Log) (int, error) {
	live := map[string]bool{}
	err := eachRecord(l, 0, func(r record.Record) {
		if live[string(r.Key)] = true; r.Value == nil {
			delete(live, string(r.Key))
		}
	})
	return len(live), err
}
