package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kaen-log/gateway/compare"
)

// newCompareGoldenCommand records what a real Kafka answers; developers of the gateway run it.
func newCompareGoldenCommand(f *compareFlags) *cobra.Command {
	var kafka, out string
	cmd := &cobra.Command{
		Use:   "golden -a HOST:PORT --kafka 4.4.0 --out compare/testdata/kafka-4.4.0",
		Short: "Record what Apache Kafka answers in every scenario, for go test",
		Long: "Run every scenario against a real Apache Kafka and write its answers to a folder, replacing\n" +
			"the recordings there. A broker that is not the Kafka of that version is refused.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.a == "" || out == "" {
				return &exitError{Code: exitUsage, Err: fmt.Errorf("want -a HOST:PORT and --out DIR")}
			}
			f.b = f.a
			if err := checkCompareFlags(f, compare.Formats); err != nil {
				return &exitError{Code: exitUsage, Err: err}
			}
			scenarios, err := compare.Scenarios()
			if err != nil {
				return &exitError{Code: exitUsage, Err: err}
			}
			g, err := compare.Record(cmd.Context(), f.a, kafka, scenarios, compare.Options{Seed: f.seed, Progress: showProgress(cmd.ErrOrStderr(), false)})
			if err != nil {
				return &exitError{Code: exitFailed, Err: err}
			}
			if err := replaceRecordings(out, g.Files()); err != nil {
				return &exitError{Code: exitFailed, Err: err}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d cases of Apache Kafka %s\n", out, len(g.Cases), g.Kafka)
			return err
		},
	}
	cmd.Flags().StringVar(&kafka, "kafka", "4.4.0", "the version of Kafka that answers")
	cmd.Flags().StringVar(&out, "out", "", "folder of the recordings")
	return cmd
}

// replaceRecordings makes dir hold these recordings and no others. Other files in it stay.
func replaceRecordings(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, ok := files[filepath.Base(name)]; ok {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.HasPrefix(text, []byte("kafka ")) { // as every recording begins
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
