package compare

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed schema/kafka-4.4.txt
var schemaText string

// Range is a range of versions, both ends included. It is empty when Max < Min.
type Range struct{ Min, Max int16 }

// noVersion is the empty range.
var noVersion = Range{0, -1}

// Has reports whether the range holds v.
func (r Range) Has(v int16) bool { return r.Min <= v && v <= r.Max }

// And returns the versions in both ranges.
func (r Range) And(o Range) Range { return Range{max(r.Min, o.Min), min(r.Max, o.Max)} }

// Empty reports whether the range holds nothing.
func (r Range) Empty() bool { return r.Max < r.Min }

func (r Range) String() string {
	switch {
	case r.Empty():
		return "none"
	case r.Min == r.Max:
		return strconv.Itoa(int(r.Min))
	case r.Max == maxVersion:
		return fmt.Sprintf("%d+", r.Min)
	}
	return fmt.Sprintf("%d-%d", r.Min, r.Max)
}

// maxVersion stands for no upper end.
const maxVersion = 32767

// parseRange reads 3, 3+, 3-5 or none.
func parseRange(s string) (Range, error) {
	if s == "none" {
		return noVersion, nil
	}
	lo, hi, dash := strings.Cut(s, "-")
	lo, open := strings.CutSuffix(lo, "+")
	low, err := strconv.ParseInt(lo, 10, 16)
	if err != nil {
		return Range{}, fmt.Errorf("versions %q: want 3, 3+, 3-5 or none", s)
	}
	r := Range{int16(low), int16(low)}
	if open {
		r.Max = maxVersion
	}
	if dash {
		high, err := strconv.ParseInt(hi, 10, 16)
		if err != nil || open {
			return Range{}, fmt.Errorf("versions %q: want 3, 3+, 3-5 or none", s)
		}
		r.Max = int16(high)
	}
	return r, nil
}

// API is one kind of request and its answer, in every version.
type API struct {
	Key      int16
	Name     string // Kafka's, such as ListOffsets
	Valid    Range  // what Kafka's schema says; what a broker serves is asked of it
	Flexible Range  // versions with tag sections
	Request  []*Field
	Response []*Field
}

// Field is one field of a message.
type Field struct {
	Name     string // Kafka's, in camel case
	Type     string // bool int8 int16 uint16 int32 int64 float64 string bytes uuid records, or struct
	Array    bool
	Versions Range
	Null     Range // versions in which it may be null
	Tagged   Range // versions in which it is in the tag section
	Tag      uint64
	Default  string // "" is the zero value, "null" is null
	MapKey   bool   // the key of the array it stands in
	Fields   []*Field
}

// schema is every API by name in lower case; read at the start and never changed.
var schema, schemaByKey = mustParseSchema(schemaText)

// APINamed finds an API by its name, without regard to case.
func APINamed(name string) (*API, bool) {
	a, ok := schema[strings.ToLower(name)]
	return a, ok
}

// APIByKey finds an API by its key.
func APIByKey(key int16) (*API, bool) {
	a, ok := schemaByKey[key]
	return a, ok
}

// APIs returns every API in the order of their keys.
func APIs() []*API {
	out := make([]*API, 0, len(schema))
	for _, a := range schema {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *API) int { return int(a.Key) - int(b.Key) })
	return out
}

func mustParseSchema(text string) (map[string]*API, map[int16]*API) {
	byName, err := parseSchema(text)
	if err != nil {
		panic("compare: schema: " + err.Error())
	}
	byKey := map[int16]*API{}
	for _, a := range byName {
		byKey[a.Key] = a
	}
	return byName, byKey
}

// parseSchema reads the text form: a line "api KEY NAME VALID FLEXIBLE", a line "request" or "response", and below it
// one line a field, indented by two spaces a level: NAME TYPE VERSIONS [null=R] [tag=N:R] [default=V] [key].
func parseSchema(text string) (map[string]*API, error) {
	out := map[string]*API{}
	var api *API
	var levels []*[]*Field // where the fields of each depth go
	for n, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		fail := func(err error) error { return fmt.Errorf("line %d: %q: %w", n+1, line, err) }
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		switch {
		case depth == 0 && words[0] == "api":
			if len(words) != 5 {
				return nil, fail(fmt.Errorf("%d words, want 5", len(words)))
			}
			key, err := strconv.ParseInt(words[1], 10, 16)
			if err != nil {
				return nil, fail(err)
			}
			api = &API{Key: int16(key), Name: words[2]}
			if api.Valid, err = parseRange(words[3]); err != nil {
				return nil, fail(err)
			}
			if api.Flexible, err = parseRange(words[4]); err != nil {
				return nil, fail(err)
			}
			out[strings.ToLower(api.Name)] = api
		case depth == 0 && words[0] == "request":
			levels = []*[]*Field{&api.Request}
		case depth == 0 && words[0] == "response":
			levels = []*[]*Field{&api.Response}
		default:
			if depth < 1 || depth > len(levels) {
				return nil, fail(fmt.Errorf("indented by %d levels below %d", depth, len(levels)))
			}
			f, err := parseField(words)
			if err != nil {
				return nil, fail(err)
			}
			*levels[depth-1] = append(*levels[depth-1], f)
			levels = append(levels[:depth], &f.Fields)
		}
	}
	return out, nil
}

func parseField(words []string) (*Field, error) {
	if len(words) < 3 {
		return nil, fmt.Errorf("%d words, want a name, a type and versions", len(words))
	}
	f := &Field{Name: words[0], Type: words[1], Null: noVersion, Tagged: noVersion}
	f.Type, f.Array = strings.CutPrefix(f.Type, "[]")
	var err error
	if f.Versions, err = parseRange(words[2]); err != nil {
		return nil, err
	}
	for _, w := range words[3:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "null":
			f.Null, err = parseRange(value)
		case "tag":
			tag, versions, _ := strings.Cut(value, ":")
			if f.Tag, err = strconv.ParseUint(tag, 10, 32); err == nil {
				f.Tagged, err = parseRange(versions)
			}
		case "default":
			f.Default = value
		case "key":
			f.MapKey = true
		default:
			err = fmt.Errorf("%q", w)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}
