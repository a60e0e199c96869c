package txn

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// BenchmarkList measures a list of some producers, as many as are named, of 1,000 transactional ids; none of them is
// found.
func BenchmarkList(b *testing.B) {
	for _, producers := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{}), Now: time.Now})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			c := New(Options{
				Store: s, Now: time.Now, Config: Config{Partitions: 2},
				EndOffsets: func(context.Context, int32, Marker) error { return nil },
			})
			if _, err := c.EnsureTopic(); err != nil {
				b.Fatal(err)
			}
			for i := range 1000 {
				if _, err := c.Init(b.Context(), InitRequest{TransactionalID: fmt.Sprint(i), Timeout: time.Minute}); err != nil {
					b.Fatal(err)
				}
			}
			r := ListRequest{MinDuration: -1}
			for i := range producers {
				r.ProducerIDs = append(r.ProducerIDs, int64(1_000_000+i))
			}
			b.ReportAllocs()
			for b.Loop() {
				if got, err := c.List(r); err != nil || len(got.Transactions) != 0 {
					b.Fatal(got, err)
				}
			}
		})
	}
}
