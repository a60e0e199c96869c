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

func newRecordCommand() *cobra.Command {
	var listen, upstream, out string
	cmd := &cobra.Command{
		Use:   "record --upstream HOST:PORT --out FILE [--listen 127.0.0.1:9092]",
		Short: "Record what Kafka clients and a broker say to each other, as a proxy between them",
		Long: "Point any Kafka client at --listen. What it says is passed on to --upstream and kept in --out, up to\n" +
			"the last frame also when the proxy is killed. Answers that name brokers are changed so that clients\n" +
			"stay on the proxy; further brokers of a cluster get ports of their own. It ends on an interrupt.\n\n" +
			"Of SASL only mechanisms are kept. The values of configs that are named like passwords, secrets,\n" +
			"credentials or keys, salted passwords and the passwords of delegation tokens are replaced by\n" +
			"(redacted). Records are kept as they are. TLS is not spoken on either side.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if upstream == "" || out == "" {
				return &exitError{Code: exitUsage, Err: errors.New("want --upstream HOST:PORT and --out FILE")}
			}
			if err := checkAddresses(listen, upstream); err != nil {
				return &exitError{Code: exitUsage, Err: err}
			}
			return runRecord(cmd.Context(), listen, upstream, out, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9092", "HOST:PORT for clients")
	cmd.Flags().StringVar(&upstream, "upstream", "", "HOST:PORT of the broker")
	cmd.Flags().StringVar(&out, "out", "", "file of the session; it must not exist yet")
	return cmd
}

func runRecord(ctx context.Context, listen, upstream, out string, log io.Writer) error {
	file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	proxy, err := compare.ListenProxy(ctx, listen, upstream, file, func(line string) { fmt.Fprintln(log, line) })
	if err != nil {
		return &exitError{Code: exitFailed, Err: errors.Join(err, file.Close(), os.Remove(out))}
	}
	fmt.Fprintf(log, "recording listen=%s upstream=%s out=%s\n", proxy.Addr(), upstream, out)
	if err := errors.Join(proxy.Run(ctx), file.Sync(), file.Close()); err != nil {
		return &exitError{Code: exitFailed, Err: err}
	}
	n := proxy.Recorded()
	fmt.Fprintf(log, "%s: %d connections, %d requests, %d answers\n", out, n.Connections, n.Requests, n.Answers)
	return nil
}
