// Command gateway is a Kafka-compatible server in one binary, and the tools that
// go with it: produce, consume, dump, demo, compare, record, replay, frames. One file per subcommand.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, fixed: scripts depend on them.
const (
	exitDone   = 0 // done
	exitNo     = 1 // the answer is no: a difference found, a check failed
	exitUsage  = 2 // usage or configuration
	exitFailed = 3 // failed while running: unreachable, could not run
	exitData   = 4 // data directory locked or damaged
)

// exitError carries an exit code with its cause. A nil Err exits without a word.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := newRootCommand()
	root.SetArgs(args)
	return exitCodeOf(root.ExecuteContext(ctx))
}

// exitCodeOf turns what a command returned into the exit code, and says why.
func exitCodeOf(err error) int {
	if err == nil {
		return exitDone
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{Code: exitUsage, Err: err} // cobra's own: flags and arguments
	}
	if exit.Err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", exit.Err)
	}
	return exit.Code
}

// newRootCommand wires the subcommands; the root itself serves.
func newRootCommand() *cobra.Command {
	root := newServeCommand()
	root.Use = "gateway"
	root.Short = "A Kafka-compatible server in one binary"
	root.Long = "gateway serves Kafka's wire protocol from its own durable segment store.\n" +
		"Without a subcommand it serves (the same as gateway serve)."
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.AddCommand(
		newServeCommand(),
		newVersionCommand(),
		newProduceCommand(),
		newConsumeCommand(),
		newDemoCommand(),
		newDumpCommand(),
		newCompareCommand(),
		newRecordCommand(),
		newReplayCommand(),
		newFramesCommand(),
	)
	return root
}
