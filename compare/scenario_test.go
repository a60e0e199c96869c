package compare

import (
	"strings"
	"testing"
)

// TestScenariosThatCannotRunAreRefused has faults that a look at the text shows: none may wait for a broker to be found.
func TestScenariosThatCannotRunAreRefused(t *testing.T) {
	for steps, want := range map[string]string{
		"[null]":                                       "step 1: it is null",
		"[{api: Metadata, version: 3-5}]":              `version "3-5"`,
		"[{api: Metadata, version: none}]":             `version "none"`,
		"[{api: Metadata, truncate: -5}]":              "truncate -5",
		"[{api: Metadata, within: -5s}]":               `got "-5s"`,
		"[{api: Metadata, atLeast: 0s}]":               `got "0s"`,
		"[{api: Metadata, pin: open}]":                 `pin "open"`,
		"[{await: it}]":                                `no step before is sent as "it"`,
		"[{parked: it}, {api: Metadata, as: it}]":      `no step before is sent as "it"`,
		"[{api: Metadata, as: it}, {await: it}]":       "",
		"[{api: Metadata, version: 99, pin: closed}]":  "",
		"[{api: Metadata, as: it}, {parked: it}]":      "",
		"[{api: Metadata, version: min, within: 1ms}]": "",
	} {
		_, err := ParseScenario("s", []byte("{why: w, tags: [t], steps: "+steps+"}"))
		if err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", steps, err, want)
		}
	}
}
