package wire

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeLogDirs(t *testing.T) {
	atVersions(t, "ADM-18", 35, 0, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		b.topic("t", 2)
		b.topic("u", 1)
		batch := b.batch("v")
		b.mustProduce("t", 1, batch)
		describe := func(topics ...kmsg.DescribeLogDirsRequestTopic) (kmsg.DescribeLogDirsResponseDir, []string) {
			t.Helper()
			req := kmsg.NewPtrDescribeLogDirsRequest()
			req.Version, req.Topics = version, topics
			resp := ask[*kmsg.DescribeLogDirsResponse](b, req)
			if resp.ErrorCode != 0 || len(resp.Dirs) != 1 || resp.Dirs[0].ErrorCode != 0 {
				t.Fatalf("got %+v, want one directory without an error", resp)
			}
			var out []string
			for _, topic := range resp.Dirs[0].Topics {
				for _, p := range topic.Partitions {
					if p.OffsetLag != 0 || p.IsFuture {
						t.Errorf("%s-%d: lag %d, future %t", topic.Topic, p.Partition, p.OffsetLag, p.IsFuture)
					}
					out = append(out, fmt.Sprintf("%s-%d %d", topic.Topic, p.Partition, p.Size))
				}
			}
			return resp.Dirs[0], out
		}
		dir, got := describe()
		size := fmt.Sprintf("t-1 %d", len(batch))
		if want := []string{"t-0 0", size, "u-0 0"}; !slices.Equal(got, want) {
			t.Errorf("all: got %q, want %q", got, want)
		}
		if !filepath.IsAbs(dir.Dir) {
			t.Errorf("directory %q, want an absolute path", dir.Dir)
		}
		if version >= 4 && (dir.TotalBytes <= 0 || dir.UsableBytes <= 0 || dir.UsableBytes > dir.TotalBytes) {
			t.Errorf("total %d, usable %d", dir.TotalBytes, dir.UsableBytes)
		}
		some := []kmsg.DescribeLogDirsRequestTopic{
			{Topic: "ghost", Partitions: []int32{0}}, {Topic: "t", Partitions: []int32{1, 7}}, {Topic: "t", Partitions: []int32{1, -1}},
		}
		if _, got = describe(some...); !slices.Equal(got, []string{size}) {
			t.Errorf("some: got %q, want %q", got, size)
		}
		if _, got = describe(kmsg.DescribeLogDirsRequestTopic{Topic: "ghost", Partitions: []int32{0}}); len(got) > 0 {
			t.Errorf("a topic that does not exist: got %q, want none", got)
		}
		b.stop()
		b.open(nil)
		if _, got = describe(some...); !slices.Equal(got, []string{size}) {
			t.Errorf("after a restart: got %q, want %q", got, size)
		}
	})
}
