package main

import "github.com/spf13/cobra"

// newDemoCommand is the parent of the walk-throughs. Each runs the code that the server runs, on made-up data and a
// given clock, and prints the same every time.
func newDemoCommand() *cobra.Command {
	demo := &cobra.Command{
		Use:   "demo",
		Short: "Walk through a part of the server on made-up data",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	demo.AddCommand(newDemoRecordCommand(), newDemoCleanerCommand())
	return demo
}
