package storage

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/kaen-log/gateway/storage/vfs"
)

// TestStoreTrace shows the order of changes and syncs. After "open" and "close" stand the operations of these; paths
// are relative to the data directory, ids are numbered.
func TestStoreTrace(t *testing.T) {
	datadriven.RunTest(t, "testdata/store_trace", func(t *testing.T, d *datadriven.TestData) string {
		mem := vfs.NewMem(vfs.MemOptions{})
		var trace strings.Builder
		ids := make(map[string]string)
		unique := regexp.MustCompile(`\.[0-9a-f]{32}-`)
		fsys := vfs.Log(mem, func(line string) {
			line = strings.ReplaceAll(line, testDir+"/", "")
			line = unique.ReplaceAllStringFunc(line, func(id string) string {
				if ids[id] == "" {
					ids[id] = fmt.Sprintf(".<id %d>-", len(ids)+1)
				}
				return ids[id]
			})
			trace.WriteString("  " + line + "\n")
		})
		var s *Store
		for _, command := range strings.Split(d.Input, "\n") {
			trace.WriteString(command + "\n")
			words := strings.Fields(command)
			var err error
			switch words[0] {
			case "open":
				s, err = Open(testDir, Options{FS: fsys})
			case "close":
				err = s.Close()
			case "create":
				_, err = s.CreateTopic(TopicSpec{Name: words[1], Partitions: 2})
			case "append":
				topic, _ := s.Topic(words[1])
				l, _ := topic.Partition(1)
				_, err = produce(l, "value")
			case "grow":
				topic, _ := s.Topic(words[1])
				err = s.AddPartitions(topic.ID(), topic.Partitions()+1)
			case "delete":
				topic, _ := s.Topic(words[1])
				err = s.DeleteTopic(topic.ID())
			case "checkpoint":
				err = s.saveCheckpoints()
			case "remove":
				s.retiring.dirs[0].due = time.Time{}
				s.removeRetired()
			case "producer-id":
				_, err = s.NextProducerID()
			default:
				d.Fatalf(t, "no command %s", words[0])
			}
			if err != nil {
				fmt.Fprintf(&trace, "  error: %v\n", err)
			}
		}
		return trace.String()
	})
}
