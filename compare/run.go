package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options say what Run compares, and how.
type Options struct {
	A, B string // HOST:PORT
	// Versions is min, max or all: which versions of its api a scenario runs at.
	Versions string
	// Seed names what a run makes: the same seed, the same names.
	Seed uint64
	// Strict compares the words of error messages too.
	Strict bool
	// Only names the cases to run, as Case.String prints them or a part of it (SCENARIO, SCENARIO@vN, SCENARIO@vN#ROW);
	// none is all.
	Only []string
	// ChangeBrokers lets scenarios run that set configs of the brokers themselves, where none were set before.
	ChangeBrokers bool
	// Expected are the differences that are meant.
	Expected []Expected
	// Files are those that the scenarios were read from, for the command that repeats a case; none are built in.
	Files []string
	// Progress is told of each case before it runs; nil is not.
	Progress func(done, all int, c Case)
	// Log takes remarks: what could not be cleaned up. Nil drops them.
	Log func(string)

	// Golden takes the place of broker B: what a Kafka answered once.
	Golden *Golden

	// record gets the transcript of each case instead of a comparison.
	record func(c Case, t Transcript)
	// mutate, for tests, changes an answer after it is decoded.
	mutate func(side int, c Case, step int, prefix string, root *Node)
	// keep, for tests, is told of each answer before it is normalised.
	keep func(r *runner, step int, st *Step, p *pending, a answer)
}

// Case is one run of a scenario: at one version of its api, with one row of its table.
type Case struct {
	Scenario *Scenario
	Version  int16 // -1 when the scenario has no api
	Row      int   // -1 when it has no table
}

// String names the case as it is written on the command line.
func (c Case) String() string {
	s := c.Scenario.Name
	if c.Version >= 0 {
		s += fmt.Sprintf("@v%d", c.Version)
	}
	if c.Row >= 0 {
		s += fmt.Sprintf("#%d", c.Row+1)
	}
	return s
}

// named reports whether name is the case's, or that of a group of cases it belongs to.
func (c Case) named(name string) bool {
	scenario, rest, _ := strings.Cut(name, "@")
	version, row, hasRow := strings.Cut(rest, "#")
	if rest == "" {
		scenario, row, hasRow = strings.Cut(scenario, "#")
	}
	return scenario == c.Scenario.Name && (version == "" || version == fmt.Sprintf("v%d", c.Version)) &&
		(!hasRow || row == strconv.Itoa(c.Row+1))
}

// Transcript is what one side answered in one case.
type Transcript struct {
	Answers []Answer `json:"answers"`
	// Stopped says why the steps after the last answer were not done; "" when all were.
	Stopped string `json:"stopped,omitempty"`
}

// Answer is one answer, as it is compared.
type Answer struct {
	Step    int          `json:"step"` // from 1
	Does    string       `json:"does,omitempty"`
	API     string       `json:"api"`
	Version int16        `json:"version"`
	Fields  []FieldValue `json:"fields"`
	Pins    []string     `json:"pins,omitempty"` // pinned values that were not found

	frame []byte
}

// Run runs the scenarios against both brokers. An error means that the comparison could not be done; then the report
// holds what was done before. When ctx ends, what the run made is still cleaned up.
func Run(ctx context.Context, scenarios []*Scenario, o Options) (*Report, error) {
	r := &Report{Seed: o.Seed, Strict: o.Strict, ChangeBrokers: o.ChangeBrokers, Versions: o.Versions, recorded: o.Golden != nil, files: o.Files}
	for i, addr := range []string{o.A, o.B} {
		if i == 1 && o.Golden != nil {
			r.B = &Broker{Addr: "recording of Kafka " + o.Golden.Kafka, Product: "other", Release: o.Golden.release(), Version: o.Golden.Kafka, APIs: o.Golden.APIs}
			continue
		}
		b, err := Reach(ctx, addr)
		if err != nil {
			return r, err
		}
		*[]**Broker{&r.A, &r.B}[i] = b
		if err := b.readConfigs(ctx, scenarios); err != nil {
			return r, fmt.Errorf("configs of %s: %w", addr, err)
		}
		if o.ChangeBrokers {
			if err := b.readDynamic(ctx); err != nil {
				return r, fmt.Errorf("configs of %s: %w", addr, err)
			}
		}
	}
	cases := casesOf(scenarios, [2]*Broker{r.A, r.B}, &o)
	missing := map[string]int{} // how many cases of a scenario did not run
	for _, c := range cases {
		missing[c.Scenario.Name]++
	}
	if len(o.Only) > 0 {
		cases = slices.DeleteFunc(cases, func(c plannedCase) bool {
			return !slices.ContainsFunc(o.Only, func(name string) bool { return c.named(name) })
		})
		if len(cases) == 0 {
			return r, fmt.Errorf("no case %s at versions that both serve", strings.Join(o.Only, ", "))
		}
	}
	r.Cases = make([]CaseResult, len(cases))
	if err := r.runAll(ctx, cases, &o); err != nil {
		r.Cases = slices.DeleteFunc(r.Cases, func(c CaseResult) bool { return c.Name == "" })
		return r, err
	}
	for i := range r.Cases {
		if r.Cases[i].NotRun == "" {
			missing[r.Cases[i].Scenario]--
		}
	}
	r.judge(o.Expected, func(scenario string) bool {
		n, planned := missing[scenario]
		return planned && n == 0 && o.Versions == "all"
	})
	return r, nil
}

// parallel is how many cases run at once. Each has names of its own, so they do not meet; but for those that say they
// must be alone.
const parallel = 6

// runAll runs the cases into r.Cases. The first error ends it when the cases under way are through.
func (r *Report) runAll(ctx context.Context, cases []plannedCase, o *Options) error {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards failed and o.Progress
	var failed error
	slots := make(chan struct{}, parallel)
	for i, c := range cases {
		if c.Scenario.Alone {
			wg.Wait()
		}
		slots <- struct{}{}
		mu.Lock()
		stop := failed != nil || ctx.Err() != nil
		if o.Progress != nil && !stop {
			o.Progress(i, len(cases), c.Case)
		}
		mu.Unlock()
		if stop {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			result, err := r.runOne(ctx, i, c, o)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, fmt.Errorf("%s: %w", c.Case, err))
				return
			}
			r.Cases[i] = result
		})
		if c.Scenario.Alone {
			wg.Wait()
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return failed
}

// runOne runs one case on both sides at once and compares.
func (r *Report) runOne(ctx context.Context, number int, c plannedCase, o *Options) (CaseResult, error) {
	result := CaseResult{Name: c.String(), Scenario: c.Scenario.Name, Version: c.Version, Row: c.Row, Why: c.Scenario.Why, NotRun: c.skip}
	if c.skip != "" {
		return result, nil
	}
	recorded, isRecorded := Transcript{}, false
	if o.Golden != nil {
		if recorded, isRecorded = o.Golden.Cases[c.String()]; !isRecorded {
			result.NotRun = "not recorded"
			return result, nil
		}
	}
	var transcripts [2]Transcript
	var errs [2]error
	var wg sync.WaitGroup
	now := time.Now() // one for both, so that what is sent is the same
	for side, b := range []*Broker{r.A, r.B} {
		if side == 1 && (isRecorded || o.record != nil) {
			transcripts[1] = recorded
			continue
		}
		wg.Go(func() {
			transcripts[side], errs[side] = runCase(ctx, b, side, number, c.Case, now, o, [2]*Broker{r.A, r.B})
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return result, err
	}
	if o.record != nil {
		o.record(c.Case, transcripts[0])
		return result, nil
	}
	result.compare(transcripts[0], transcripts[1])
	return result, nil
}

type plannedCase struct {
	Case
	skip string // why it cannot run
}

// casesOf lists the cases of scenarios at the versions that both brokers serve.
func casesOf(scenarios []*Scenario, sides [2]*Broker, o *Options) []plannedCase {
	var out []plannedCase
	for _, s := range scenarios {
		versions := []int16{-1}
		skip := ""
		if s.ChangesBroker != "" && !o.ChangeBrokers {
			skip = "it sets " + s.ChangesBroker + "; --change-brokers allows that"
		}
		for _, st := range s.Steps {
			if why := st.notServed(sides); why != "" {
				skip = why
			}
		}
		for _, b := range sides {
			if why := b.lacks(s.Configs); why != "" {
				skip = why
			}
			if s.ChangesBroker != "" && len(b.dynamic) > 0 {
				skip = fmt.Sprintf("%s has set %s while it runs, which this would take away", b.Addr, strings.Join(b.dynamic, ", "))
			}
			if b.Product != "gateway" && metadataVersions[b.Release] < metadataVersions[s.Since] {
				skip = fmt.Sprintf("%s is Kafka %s, this needs %s", b.Addr, b.Release, s.Since)
			}
		}
		if a, ok := APINamed(s.API); ok && skip == "" {
			// The lowest version is advertised lower than it is served for Produce.
			r := common(a, sides).And(s.bounds).And(a.Valid)
			versions = nil
			for v := r.Min; v <= r.Max; v++ {
				versions = append(versions, v)
			}
			switch {
			case len(versions) == 0:
				skip = fmt.Sprintf("no version %s of %s is served by both", s.bounds, a.Name)
				versions = []int16{-1}
			case o.Versions == "min":
				versions = versions[:1]
			case o.Versions == "max":
				versions = versions[len(versions)-1:]
			}
		}
		for _, v := range versions {
			if len(s.Each) == 0 {
				out = append(out, plannedCase{Case{s, v, -1}, skip})
			}
			for row := range s.Each {
				out = append(out, plannedCase{Case{s, v, row}, skip})
			}
		}
	}
	return out
}

// notServed says why a step cannot be sent to both sides; "" when it can, or when that is what it shows.
func (st *Step) notServed(sides [2]*Broker) string {
	a, ok := APINamed(st.API)
	if !ok || st.Body != nil || st.Pin == "closed" {
		return ""
	}
	both := common(a, sides)
	if both.Empty() {
		return a.Name + " is not served by both"
	}
	if v, err := strconv.ParseInt(st.Version, 10, 16); err == nil && !both.Has(int16(v)) {
		return fmt.Sprintf("version %d of %s is not served by both", v, a.Name)
	}
	return ""
}

// common is the versions of an api that both sides serve.
func common(a *API, sides [2]*Broker) Range {
	out := Range{0, maxVersion}
	for _, b := range sides {
		r, ok := b.APIs[a.Key]
		if !ok {
			return noVersion
		}
		out = out.And(r)
	}
	return out
}

// prefixOf names what a case makes. It has the same length for every case and side, and sorts the same.
func prefixOf(seed uint64, side, number int) string {
	return fmt.Sprintf("gwcmp-%07x-%c%04d-", seed&0xfffffff, 'a'+side, number%10000)
}
