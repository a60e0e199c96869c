package compare

import (
	"slices"
	"testing"
)

// namesBrokers fills in every host and port below fields, and returns nil where there is none.
func namesBrokers(fields []*Field, version int16) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		if !f.Versions.Has(version) {
			continue
		}
		switch {
		case f.Name == "host" && slices.ContainsFunc(fields, func(f *Field) bool { return f.Name == "port" }):
			out["host"], out["port"] = "far.example", 9999
		case f.Type == "struct":
			inner := namesBrokers(f.Fields, version)
			if inner == nil {
				continue
			}
			out[f.Name] = inner
			if f.Array {
				out[f.Name] = []any{inner, inner}
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// TestAnswersNameTheProxy fills an address into every answer at every version that has room for one.
func TestAnswersNameTheProxy(t *testing.T) {
	answers := map[string]int{}
	for _, api := range APIs() {
		for v := api.Valid.Min; v <= api.Valid.Max; v++ {
			values := namesBrokers(api.Response, v)
			if values == nil {
				continue
			}
			answers[api.Name]++
			q := &call{api: api, version: v, correlation: 3}
			m := &message{call: q, answer: answer{frame: answerFrame(t, api.Name, v, 3, values), version: v}}
			q.decode(&m.answer, true)
			found := 0
			e, err := readdress(m.root, func(addr string) (string, int64, error) {
				if addr != "far.example:9999" {
					t.Errorf("%s v%d: got address %s, want far.example:9999", api.Name, v, addr)
				}
				found++
				return "here", 1234, nil
			})
			if err != nil || found == 0 {
				t.Errorf("%s v%d: got %d addresses, error %v", api.Name, v, found, err)
				continue
			}
			frame, err := m.splice(e)
			if err != nil {
				t.Errorf("%s v%d: %v", api.Name, v, err)
				continue
			}
			again := answer{frame: frame}
			q.decode(&again, true)
			if again.fault != "" || len(again.rest) != 0 {
				t.Errorf("%s v%d: does not decode with other addresses: %s, %d bytes left over", api.Name, v, again.fault, len(again.rest))
			}
			_ = endpoints(again.root, func(addr string, _, _ *Node) error {
				found--
				if addr != "here:1234" {
					t.Errorf("%s v%d: got address %s, want here:1234", api.Name, v, addr)
				}
				return nil
			})
			if found != 0 {
				t.Errorf("%s v%d: %d addresses more or less than before", api.Name, v, found)
			}
		}
	}
	for _, name := range []string{"Produce", "Fetch", "Metadata", "FindCoordinator", "DescribeCluster", "ShareFetch", "ShareAcknowledge"} {
		if answers[name] == 0 {
			t.Errorf("%s: no version names a broker, want some", name)
		}
	}
}

// TestClientsAreKeptAtVersionsThatDecode has a broker offer more than the schema knows.
func TestClientsAreKeptAtVersionsThatDecode(t *testing.T) {
	metadata, _ := APINamed("Metadata")
	values := map[string]any{"apiKeys": []any{
		map[string]any{"apiKey": metadata.Key, "minVersion": 0, "maxVersion": metadata.Valid.Max + 5},
		map[string]any{"apiKey": 0, "minVersion": 3, "maxVersion": 7},
		map[string]any{"apiKey": 9000, "minVersion": 0, "maxVersion": 50},
	}}
	for v := range int16(5) {
		q := &call{correlation: 1, version: v}
		q.api, _ = APIByKey(apiVersionsKey)
		m := &message{call: q, answer: answer{frame: answerFrame(t, "ApiVersions", v, 1, values), version: v}}
		q.decode(&m.answer, true)
		frame, err := m.splice(withinSchema(m))
		if err != nil {
			t.Fatal(err)
		}
		again := answer{frame: frame}
		q.decode(&again, true)
		var got []int64
		for _, k := range again.root.Child("apiKeys").Children {
			got = append(got, k.int("maxVersion"))
		}
		if want := []int64{int64(metadata.Valid.Max), 7, 50}; !slices.Equal(got, want) {
			t.Errorf("ApiVersions v%d: got highest versions %v, want %v", v, got, want)
		}
	}
}
