package storage

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kaen-log/gateway/storage/vfs"
)

// metaPropertiesFile says whose the data directory is, in Java's properties format. Version 1 has cluster.id,
// node.id and directory.id; version 0, the default, may have broker.id and cluster.id. Kafka: MetaProperties.
const metaPropertiesFile = "meta.properties"

// MetaProperties is the content of a meta.properties file.
type MetaProperties struct {
	Version     int32   // 0 or 1
	ClusterID   string  // "" for none, in version 0
	NodeID      int32   // -1 for none, in version 0
	DirectoryID TopicID // zero for none
}

// encodeMetaProperties returns the file as version 1, with the comment lines that Java puts first.
func encodeMetaProperties(m MetaProperties, now time.Time) []byte {
	b := fmt.Appendf(nil, "#\n#%s\n", now.UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
	b = appendProperty(b, "cluster.id", m.ClusterID)
	if !m.DirectoryID.IsZero() {
		b = appendProperty(b, "directory.id", m.DirectoryID.String())
	}
	b = appendProperty(b, "node.id", strconv.Itoa(int(m.NodeID)))
	return appendProperty(b, "version", "1")
}

// DecodeMetaProperties reads a meta.properties file; keys that are not known are passed over. A version that is not
// known is an error: the directory is not ours to interpret.
func DecodeMetaProperties(b []byte) (MetaProperties, error) {
	fault := func(line int, format string, args ...any) (MetaProperties, error) {
		return MetaProperties{}, &DecodeError{Format: "meta.properties", Line: line, Reason: fmt.Sprintf(format, args...)}
	}
	values, lines := parseProperties(b)
	m := MetaProperties{NodeID: -1, ClusterID: values["cluster.id"]}
	if text, ok := values["version"]; ok {
		v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
		if err != nil || v < 0 || v > 1 {
			return fault(lines["version"], "version %.80q, want 0 or 1", text)
		}
		m.Version = int32(v)
	}
	key := "broker.id"
	if m.Version > 0 {
		key = "node.id"
		if m.ClusterID == "" {
			return fault(0, "no cluster.id")
		}
	}
	switch text, ok := values[key]; {
	case ok:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fault(lines[key], "%s %.80q is not a number", key, text)
		}
		m.NodeID = int32(n)
	case m.Version > 0:
		return fault(0, "no %s", key)
	}
	if text, ok := values["directory.id"]; ok {
		id, err := ParseTopicID(strings.TrimRight(text, "="))
		if err != nil {
			return fault(lines["directory.id"], "directory.id %.80q is not an id", text)
		}
		m.DirectoryID = id
	}
	return m, nil
}

// readMetaProperties reads the file of the data directory dir. The error is fs.ErrNotExist when there is none, or a
// *CorruptError.
func readMetaProperties(fsys vfs.FS, dir string) (MetaProperties, error) {
	name := filepath.Join(dir, metaPropertiesFile)
	b, err := readFile(fsys, name)
	if err != nil {
		return MetaProperties{}, err
	}
	m, err := DecodeMetaProperties(b)
	return m, corruptFile(name, err)
}

// writeMetaProperties replaces the file of the data directory dir, durably. now stands in a comment.
func writeMetaProperties(fsys vfs.FS, dir string, m MetaProperties, now time.Time) error {
	return replaceFile(fsys, filepath.Join(dir, metaPropertiesFile), encodeMetaProperties(m, now))
}

// parseProperties reads Java's properties format and returns the values and the line, from 1, each came from. Every
// text is valid in it; the later of two equal keys counts. Java: Properties.load.
func parseProperties(b []byte) (values map[string]string, lines map[string]int) {
	values, lines = map[string]string{}, map[string]int{}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
	number := 0
	for text != "" {
		var line string
		first := number + 1
		for {
			part, rest, _ := strings.Cut(text, "\n")
			text = rest
			number++
			part = strings.TrimLeft(part, " \t\f")
			if line == "" && (part == "" || part[0] == '#' || part[0] == '!') {
				break
			}
			slashes := len(part) - len(strings.TrimRight(part, `\`))
			if slashes%2 == 0 {
				line += part
				break
			}
			// A backslash at the end continues the line, without the white space that begins the next one.
			line += part[:len(part)-1]
			if text == "" {
				break
			}
		}
		if line == "" {
			continue
		}
		key, value := cutProperty(line)
		values[key], lines[key] = value, first
	}
	return values, lines
}

// cutProperty splits a line at the first separator that is not escaped: white space, '=' or ':', of which only one
// of the last two counts.
func cutProperty(line string) (key, value string) {
	i := 0
	for i < len(line) && !strings.ContainsRune(" \t\f=:", rune(line[i])) {
		if line[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(line))
	rest := strings.TrimLeft(line[i:], " \t\f")
	if rest != "" && (rest[0] == '=' || rest[0] == ':') {
		rest = strings.TrimLeft(rest[1:], " \t\f")
	}
	return unescapeProperty(line[:i]), unescapeProperty(rest)
}

func unescapeProperty(s string) string {
	if !strings.ContainsRune(s, '\\') {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b = append(b, '\t')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 'f':
			b = append(b, '\f')
		case 'u':
			n, err := strconv.ParseUint(s[i+1:min(i+5, len(s))], 16, 16)
			if err != nil || i+5 > len(s) {
				b = append(b, 'u')
				continue
			}
			b = utf8.AppendRune(b, rune(n))
			i += 4
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}

// appendProperty writes a line as Java does: separators, comment signs and backslashes are escaped.
func appendProperty(b []byte, key, value string) []byte {
	for part, s := range [2]string{key, value} {
		if part == 1 {
			b = append(b, '=')
		}
		for i, r := range s {
			switch {
			case r == ' ' && (part == 0 || i == 0), r == '=', r == ':', r == '#', r == '!', r == '\\':
				b = append(b, '\\', byte(r))
			case r == '\t':
				b = append(b, `\t`...)
			case r == '\n':
				b = append(b, `\n`...)
			case r == '\r':
				b = append(b, `\r`...)
			case r == '\f':
				b = append(b, `\f`...)
			default:
				b = utf8.AppendRune(b, r)
			}
		}
	}
	return append(b, '\n')
}
