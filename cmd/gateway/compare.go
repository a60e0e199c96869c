package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kaen-log/gateway/compare"
)

type compareFlags struct {
	a, b          string
	list          bool
	explain       string
	tags, apis    []string
	versions      string
	seed          uint64
	strict        bool
	onlyDifferent bool
	format        string
	report        string
	files         []string
	expected      string
	golden        bool
	changeBrokers bool
}

func newCompareCommand() *cobra.Command {
	f := compareFlags{}
	cmd := &cobra.Command{
		Use:   "compare -a HOST:PORT -b HOST:PORT [SCENARIO[@vN][#ROW]…]",
		Short: "Hold two Kafka-compatible brokers against each other, request by request",
		Long: "Send the same raw requests to two brokers and compare every field of every answer.\n\n" +
			"Without a SCENARIO all run (--tag and --api choose). Topics and groups that a run makes\n" +
			"begin with gwcmp-, or are a group with an empty name; they are removed at the end, also after\n" +
			"an interrupt, and nothing else is.\n" +
			"Scenarios that set configs of the brokers for a moment run with --change-brokers only, and not\n" +
			"where a config was set while the broker runs.\n\n" +
			"Exit codes: 0 the same, or only expected differences; 1 different; 2 usage; 3 could not run,\n" +
			"or nothing to be run.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCompare(cmd.Context(), &f, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.PersistentFlags().StringVarP(&f.a, "a", "a", "", "HOST:PORT of one broker")
	cmd.PersistentFlags().StringVarP(&f.b, "b", "b", "", "HOST:PORT of the other")
	cmd.PersistentFlags().StringVarP(&f.format, "output", "o", "table", "table, json, junit, md, html or matrix")
	cmd.PersistentFlags().Uint64Var(&f.seed, "seed", 0, "names what the run makes; 0 takes a random one")
	flags := cmd.Flags()
	flags.BoolVar(&f.list, "list", false, "list the scenarios")
	flags.StringVar(&f.explain, "explain", "", "print a scenario")
	flags.StringSliceVar(&f.tags, "tag", nil, "only scenarios with one of these tags")
	flags.StringSliceVar(&f.apis, "api", nil, "only scenarios with a step of one of these apis")
	flags.StringVar(&f.versions, "api-versions", "all", "min, max or all: at which versions of its api a scenario runs")
	flags.BoolVar(&f.strict, "strict", false, "compare the words of error messages too")
	flags.BoolVar(&f.onlyDifferent, "only-different", false, "leave out what is the same")
	flags.StringVar(&f.report, "report", "", "directory for the report; - or none prints it")
	flags.StringSliceVar(&f.files, "file", nil, "scenario files to run besides, or instead of, the ones built in")
	flags.StringVar(&f.expected, "expected", "", "file of expected differences instead of the one built in")
	flags.BoolVar(&f.golden, "recorded", false, "compare with the recordings of Apache Kafka 4.4.0 instead of a broker -b")
	flags.BoolVar(&f.changeBrokers, "change-brokers", false, "run also what sets configs of the brokers themselves, and takes them away again, where none were set before")
	cmd.AddCommand(newCompareVersionsCommand(&f), newCompareConfigsCommand(&f), newCompareGoldenCommand(&f))
	return cmd
}

func runCompare(ctx context.Context, f *compareFlags, args []string, out, progress io.Writer) error {
	scenarios, err := loadScenarios(f)
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	if f.explain != "" {
		args = []string{f.explain}
	}
	chosen, only, err := chooseScenarios(scenarios, f, args)
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	switch {
	case f.explain != "":
		_, err := io.WriteString(out, chosen[0].Text())
		return err
	case f.list:
		return listScenarios(out, chosen)
	}
	o, err := compareOptions(f)
	if err == nil && len(f.files) == 0 {
		err = compare.CheckExpected(o.Expected, scenarios)
	}
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	o.Only = only
	file, isFile := progress.(*os.File)
	o.Progress = showProgress(progress, isFile && term.IsTerminal(int(file.Fd())))
	o.Log = func(line string) { fmt.Fprintln(progress, line) }
	report, err := compare.Run(ctx, chosen, *o)
	if err != nil {
		return &exitError{Code: exitFailed, Err: err}
	}
	return answerReport(report, f, out)
}

// loadScenarios reads the built-in scenarios, or the files that are named.
func loadScenarios(f *compareFlags) ([]*compare.Scenario, error) {
	if len(f.files) == 0 {
		return compare.Scenarios()
	}
	var out []*compare.Scenario
	for _, name := range f.files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := compare.ParseScenario(strings.TrimSuffix(filepath.Base(name), ".yaml"), text)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// chooseScenarios picks by name, tag and api. A name may go on with @vVERSION and #ROW, as reports print it; then only
// those cases run.
func chooseScenarios(all []*compare.Scenario, f *compareFlags, args []string) (chosen []*compare.Scenario, cases []string, err error) {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "#")
		name, _, _ = strings.Cut(name, "@")
		i := slices.IndexFunc(all, func(s *compare.Scenario) bool { return s.Name == name })
		if i < 0 {
			return nil, nil, fmt.Errorf("no scenario %q; see --list", name)
		}
		if !slices.Contains(chosen, all[i]) {
			chosen = append(chosen, all[i])
		}
		cases = append(cases, arg)
	}
	if len(args) == 0 {
		chosen = slices.Clone(all)
	}
	for _, name := range f.apis {
		if _, ok := compare.APINamed(name); !ok {
			return nil, nil, fmt.Errorf("--api %q: not one of Kafka's", name)
		}
	}
	chosen = slices.DeleteFunc(chosen, func(s *compare.Scenario) bool {
		tagged := len(f.tags) == 0 || slices.ContainsFunc(f.tags, func(t string) bool { return slices.Contains(s.Tags, t) })
		calls := len(f.apis) == 0 || slices.ContainsFunc(f.apis, func(name string) bool {
			return slices.ContainsFunc(s.APIs(), func(a string) bool { return strings.EqualFold(a, name) })
		})
		return !tagged || !calls
	})
	if len(chosen) == 0 {
		return nil, nil, errors.New("no scenario is left to run; see --list")
	}
	return chosen, cases, nil
}

func listScenarios(out io.Writer, scenarios []*compare.Scenario) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range scenarios {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, strings.Join(s.Tags, ","), s.Summary())
	}
	return w.Flush()
}

// compareOptions checks the flags.
func compareOptions(f *compareFlags) (*compare.Options, error) {
	if err := checkCompareFlags(f, compare.Formats); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"min", "max", "all"}, f.versions) {
		return nil, fmt.Errorf("--api-versions: got %q, want min, max or all", f.versions)
	}
	o := &compare.Options{A: f.a, B: f.b, Versions: f.versions, Seed: f.seed, Strict: f.strict, ChangeBrokers: f.changeBrokers, Files: f.files}
	var err error
	if f.golden {
		if f.strict {
			return nil, errors.New("--strict: recordings hold no words of error messages")
		}
		if o.Golden, err = compare.LoadGolden(); err != nil {
			return nil, err
		}
	}
	if f.expected == "" {
		o.Expected, err = compare.ExpectedDifferences()
		return o, err
	}
	text, err := os.ReadFile(f.expected)
	if err != nil {
		return nil, err
	}
	o.Expected, err = compare.ParseExpected(text)
	return o, err
}

// checkCompareFlags checks what all comparisons of two brokers have, and takes a seed when none is given.
func checkCompareFlags(f *compareFlags, formats []string) error {
	if f.a == "" || f.b == "" == !f.golden {
		return errors.New("want -a HOST:PORT and -b HOST:PORT, or -a and --recorded")
	}
	if err := checkAddresses(f.a, f.b); err != nil {
		return err
	}
	if err := checkFormat(f.format, formats); err != nil {
		return err
	}
	if f.seed == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return err
		}
		f.seed = uint64(binary.BigEndian.Uint32(b[:])>>4) | 1
	}
	return nil
}

// checkAddresses finds addresses that are none; "" is one that is not given.
func checkAddresses(addrs ...string) error {
	for _, addr := range addrs {
		if _, port, err := net.SplitHostPort(addr); addr != "" && (err != nil || port == "") {
			return fmt.Errorf("address %q: want HOST:PORT", addr)
		}
	}
	return nil
}

func checkFormat(format string, formats []string) error {
	if !slices.Contains(formats, format) {
		return fmt.Errorf("--output: got %q, want one of %s", format, strings.Join(formats, ", "))
	}
	return nil
}

// showProgress names the case at hand: in one line on a terminal, else every few seconds.
func showProgress(w io.Writer, terminal bool) func(done, all int, c compare.Case) {
	last := time.Now()
	return func(done, all int, c compare.Case) {
		switch {
		case terminal:
			fmt.Fprintf(w, "\r\x1b[K%d/%d %s", done+1, all, c)
			if done+1 == all {
				fmt.Fprint(w, "\r\x1b[K")
			}
		case time.Since(last) > 5*time.Second:
			last = time.Now()
			fmt.Fprintf(w, "%d/%d %s\n", done+1, all, c)
		}
	}
}

// answerReport writes a report and exits by what it says.
func answerReport(r *compare.Report, f *compareFlags, out io.Writer) error {
	if err := writeReport(r, f, out); err != nil {
		return &exitError{Code: exitFailed, Err: err}
	}
	switch _, steps := r.Counts(); {
	case r.Differs():
		return &exitError{Code: exitNo}
	case steps == 0:
		return &exitError{Code: exitFailed, Err: errors.New("nothing was compared")}
	}
	return nil
}

func writeReport(r *compare.Report, f *compareFlags, out io.Writer) error {
	if f.report == "" || f.report == "-" {
		return r.Write(out, f.format, f.onlyDifferent)
	}
	if err := os.MkdirAll(f.report, 0o755); err != nil {
		return err
	}
	name := filepath.Join(f.report, compare.FileName(f.format))
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(r.Write(file, f.format, f.onlyDifferent), file.Close()); err != nil {
		return err
	}
	n, steps := r.Counts()
	_, err = fmt.Fprintf(out, "%s: %d cases, %d steps: %d same, %d expected, %d different, %d not run\n", name, len(r.Cases), steps,
		n[compare.Same], n[compare.Meant], n[compare.Different], n[compare.NotRun])
	return err
}

func newCompareVersionsCommand(f *compareFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "versions -a HOST:PORT -b HOST:PORT",
		Short: "Compare which requests and versions two brokers serve",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkCompareFlags(f, tableFormats); err != nil {
				return &exitError{Code: exitUsage, Err: err}
			}
			rows, err := compare.CompareVersions(cmd.Context(), f.a, f.b)
			if err != nil {
				return &exitError{Code: exitFailed, Err: err}
			}
			table := [][]string{{"key", "name", "a", "b", "verdict"}}
			differs := false
			for _, r := range rows {
				differs = differs || r.Verdict != "same"
				table = append(table, []string{fmt.Sprint(r.Key), r.Name, r.A, r.B, r.Verdict})
			}
			return answerTable(cmd.OutOrStdout(), f.format, table, rows, differs)
		},
	}
}

func newCompareConfigsCommand(f *compareFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "configs -a HOST:PORT -b HOST:PORT",
		Short: "Compare every topic and broker config of two brokers: default, type, source, synonyms, documentation present",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkCompareFlags(f, tableFormats); err != nil {
				return &exitError{Code: exitUsage, Err: err}
			}
			result, err := compare.CompareConfigs(cmd.Context(), f.a, f.b, f.seed)
			if err != nil {
				return &exitError{Code: exitFailed, Err: err}
			}
			table := [][]string{{"resource", "config", "what", "a", "b"}}
			for _, r := range result.Rows {
				table = append(table, []string{r.Resource, r.Name, r.What, r.A, r.B})
			}
			if f.format == "table" {
				fmt.Fprintf(cmd.OutOrStdout(), "%d topic configs and %d broker configs that both have, %d differences\n",
					result.Topics, result.Brokers, len(result.Rows))
			}
			return answerTable(cmd.OutOrStdout(), f.format, table, result, len(result.Rows) > 0)
		},
	}
}

// tableFormats are the forms of answerTable.
var tableFormats = []string{"table", "md", "json"}

// answerTable prints rows in one of tableFormats.
func answerTable(out io.Writer, format string, table [][]string, whole any, differs bool) error {
	switch format {
	case "table":
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range table {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
		if err := w.Flush(); err != nil {
			return &exitError{Code: exitFailed, Err: err}
		}
	case "md":
		for i, row := range table {
			fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintln(out, strings.Repeat("|---", len(row))+"|")
			}
		}
	case "json":
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(whole); err != nil {
			return &exitError{Code: exitFailed, Err: err}
		}
	}
	if differs {
		return &exitError{Code: exitNo}
	}
	return nil
}
