package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kaen-log/gateway/compare"
)

func newFramesCommand() *cobra.Command {
	o := compare.FramesOptions{}
	var request, answer string
	cmd := &cobra.Command{
		Use:   "frames FILE",
		Short: "Print the requests and answers of a recorded session, every field by Kafka's name",
		Long: "Print what gateway record kept, frame by frame: its number, when, on which connection, > from the\n" +
			"client or < from the broker, and every field by Kafka's name.\n\n" +
			"With --request or --answer FILE is one frame instead, in binary or in hex, with its length before it\n" +
			"or without; - reads standard input.\n\n" +
			"Exit codes: 0 printed; 1 the file is torn or damaged, or the frame does not decode; 2 usage.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := openFrames(args[0], cmd.InOrStdin())
			if err != nil {
				return &exitError{Code: exitUsage, Err: err}
			}
			defer in.Close()
			for _, name := range o.APIs {
				if _, ok := compare.APINamed(name); !ok {
					return &exitError{Code: exitUsage, Err: fmt.Errorf("--api %q: not one of Kafka's", name)}
				}
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if request == "" && answer == "" {
				err = compare.PrintFrames(out, in, o)
			} else {
				err = printFrame(out, in, request, answer, o)
			}
			if err := out.Flush(); err != nil {
				return &exitError{Code: exitFailed, Err: err}
			}
			var exit *exitError
			if err != nil && !errors.As(err, &exit) {
				return &exitError{Code: exitNo, Err: err}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Deep, "deep", false, "print every record")
	flags.BoolVar(&o.Hex, "hex", false, "print the bytes of each frame too")
	flags.IntSliceVar(&o.Connections, "conn", nil, "only these connections")
	flags.StringSliceVar(&o.APIs, "api", nil, "only requests of these apis and their answers")
	flags.StringVar(&request, "request", "", "KEY/VERSION: the file is one request, such as 3/12 or Metadata/12")
	flags.StringVar(&answer, "answer", "", "KEY/VERSION: the file is one answer to such a request")
	return cmd
}

func openFrames(name string, in io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(in), nil
	}
	return os.Open(name)
}

// maxFrameText bounds the file of one frame, which may be in hex.
const maxFrameText = 64 << 20

// printFrame prints the one frame in a file.
func printFrame(out io.Writer, in io.Reader, request, answer string, o compare.FramesOptions) error {
	usage := func(err error) error { return &exitError{Code: exitUsage, Err: err} }
	if request != "" && answer != "" {
		return usage(errors.New("want --request or --answer, not both"))
	}
	key, versionText, _ := strings.Cut(request+answer, "/")
	api, ok := compare.APINamed(key)
	if n, err := strconv.ParseInt(key, 10, 16); err == nil {
		api, ok = compare.APIByKey(int16(n))
	}
	version, err := strconv.ParseInt(versionText, 10, 16)
	if !ok || err != nil {
		return usage(fmt.Errorf("got %q, want KEY/VERSION, such as 3/12 or Metadata/12", request+answer))
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFrameText+1))
	switch {
	case err != nil:
		return &exitError{Code: exitFailed, Err: err}
	case len(text) > maxFrameText:
		return fmt.Errorf("more than %d MiB, which is more than one frame that is printed", maxFrameText>>20)
	}
	return compare.PrintFrame(out, oneFrame(text), request != "", api, int16(version), o)
}

// oneFrame reads hex, with any white space, or else takes the bytes for what they are, and takes the length off.
func oneFrame(text []byte) []byte {
	frame := text
	if b, err := hex.DecodeString(string(bytes.Join(bytes.Fields(text), nil))); err == nil {
		frame = b
	}
	if len(frame) >= 4 && uint64(binary.BigEndian.Uint32(frame)) == uint64(len(frame)-4) {
		frame = frame[4:]
	}
	return frame
}
