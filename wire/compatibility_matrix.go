package wire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file turns what gateway compare found, version by version, into a section of docs/compatibility.md.

// verdicts are those of a comparison, in the order of the table's columns.
var verdicts = []string{"same", "expected", "different", "not run"}

// matrixSection makes a table of the lines that gateway compare -o matrix writes: the release of Kafka, then KEY NAME
// FIRST LAST VERDICT.
func matrixSection(text string) (string, error) {
	var kafka string
	var keys []int16
	ranges := map[int16]map[string][]string{} // key, then verdict
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 2 && words[0] == "kafka" {
			kafka = words[1]
			continue
		}
		if len(words) < 5 {
			return "", fmt.Errorf("matrix: %q, want KEY NAME FIRST LAST VERDICT", line)
		}
		var n [3]int16
		for i, word := range []string{words[0], words[2], words[3]} {
			v, err := strconv.ParseInt(word, 10, 16)
			if err != nil {
				return "", fmt.Errorf("matrix: %q: %w", line, err)
			}
			n[i] = int16(v)
		}
		verdict := strings.Join(words[4:], " ")
		if !slices.Contains(verdicts, verdict) {
			return "", fmt.Errorf("matrix: verdict %q, want one of %s", verdict, strings.Join(verdicts, ", "))
		}
		if ranges[n[0]] == nil {
			ranges[n[0]], keys = map[string][]string{}, append(keys, n[0])
		}
		ranges[n[0]][verdict] = append(ranges[n[0]][verdict], versionRange(n[1], n[2]))
	}
	if kafka == "" || len(keys) == 0 {
		return "", fmt.Errorf("matrix: release of Kafka %q and %d keys, want both", kafka, len(keys))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## Compared with Apache Kafka %s\n\n", kafka)
	b.WriteString("Each version is held against the recorded answers of that Kafka by the scenarios of `gateway compare`, field by\n" +
		"field: they are the same, differ as is meant (`compare/expected-differences.yaml` says why), differ, or no scenario\n" +
		"asks in that version. Made anew by `go test ./compare -run AsKafkaDid -rewrite`; against a Kafka of your own,\n" +
		"`gateway compare -a GATEWAY -b KAFKA --change-brokers -o matrix` prints the same.\n\n")
	b.WriteString("| key | API | same | expected | different | not run |\n| ---: | --- | --- | --- | --- | --- |\n")
	for _, key := range keys {
		fmt.Fprintf(&b, "| %d | %s |", key, keyName(key))
		for _, v := range verdicts {
			fmt.Fprintf(&b, " %s |", strings.Join(ranges[key][v], ", "))
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}
