package main

import (
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
