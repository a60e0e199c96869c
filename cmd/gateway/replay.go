package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kaen-log/gateway/compare"
)

func newReplayCommand() *cobra.Command {
	f := compareFlags{}
	pace := false
	cmd := &cobra.Command{
		Use:   "replay FILE -a HOST:PORT [-b HOST:PORT]",
		Short: "Send a recorded session again, and compare what two brokers answer, or one and the recording",
		Long: "Send what gateway record kept to -a, and to -b when it is given, in the recorded order over as many\n" +
			"connections, and compare every field of every answer: of -a and -b, or of -a and the recording. Ids\n" +
			"and epochs that the recorded broker gave are sent as the broker at hand gave them.\n\n" +
			"A replay does what the client did, under the client's own names, and removes nothing: use brokers\n" +
			"that hold what the recorded one held when the session began, which for most is nothing. SASL and\n" +
			"frames that were withheld are left out, and secrets are sent as (redacted), as they were kept; of\n" +
			"several brokers all is sent to one.\n\n" +
			"Exit codes: 0 the same, or only expected differences; 1 different; 2 usage; 3 could not run.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReplay(cmd.Context(), args[0], &f, pace, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.a, "a", "a", "", "HOST:PORT of one broker")
	flags.StringVarP(&f.b, "b", "b", "", "HOST:PORT of the other; none compares with the recording")
	flags.StringVarP(&f.format, "output", "o", "table", "table, json, junit, md or html")
	flags.BoolVar(&f.strict, "strict", false, "compare the words of error messages too")
	flags.BoolVar(&f.onlyDifferent, "only-different", false, "leave out what is the same")
	flags.StringVar(&f.report, "report", "", "directory for the report; - or none prints it")
	flags.StringVar(&f.expected, "expected", "", "file of expected differences instead of those built in; their scenario is replay")
	flags.BoolVar(&pace, "pace", false, "keep the pauses of the recording")
	return cmd
}

func runReplay(ctx context.Context, name string, f *compareFlags, pace bool, out, log io.Writer) error {
	usage := func(err error) error { return &exitError{Code: exitUsage, Err: err} }
	if f.a == "" {
		return usage(errors.New("want -a HOST:PORT"))
	}
	if err := errors.Join(checkAddresses(f.a, f.b), checkFormat(f.format, compare.Formats)); err != nil {
		return usage(err)
	}
	o := compare.ReplayOptions{A: f.a, B: f.b, Name: name, Strict: f.strict, Pace: pace, Log: func(line string) { fmt.Fprintln(log, line) }}
	var err error
	if o.Expected, err = expectedInReplay(f.expected); err != nil {
		return usage(err)
	}
	session, err := os.Open(name)
	if err != nil {
		return usage(err)
	}
	defer session.Close()
	report, err := compare.Replay(ctx, session, o)
	if err != nil {
		return &exitError{Code: exitFailed, Err: err}
	}
	return answerReport(report, f, out)
}

// expectedInReplay reads the file of expected differences, or takes those that are built in.
func expectedInReplay(file string) ([]compare.Expected, error) {
	if file == "" {
		return compare.ExpectedInReplays()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return compare.ParseExpected(text)
}
