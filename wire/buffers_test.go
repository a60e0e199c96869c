package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestBufferClasses(t *testing.T) {
	var s bufferStock
	last := 0
	for class := range bufferClasses {
		size := classSize(class)
		if size <= last {
			t.Errorf("class %d is %d bytes, the one before %d", class, size, last)
		}
		if got := classOf(size); got != class {
			t.Errorf("%d bytes are of class %d, want %d", size, got, class)
		}
		if got := classOf(last + 1); got != class {
			t.Errorf("%d bytes are of class %d, want %d", last+1, got, class)
		}
		last = size
	}
	if got := classSize(smallClasses - 1); got != 64<<10 {
		t.Errorf("the largest small class is %d bytes, want 64 KiB", got)
	}
	for _, n := range []int{0, 1, 511, 513, 4096, 64<<10 + 1, 1 << 20, 1<<20 + 1, last, last + 1, 100 << 20} {
		for _, b := range []*buffer{newBuffer(n), s.get(n)} {
			if len(b.B) != 0 || cap(b.B) < n || n > smallestBuffer && cap(b.B) > n+n/4 {
				t.Errorf("a buffer for %d bytes has length %d and capacity %d", n, len(b.B), cap(b.B))
			}
			b.release()
		}
	}
}

func TestBufferOutgrown(t *testing.T) {
	b := newBuffer(512)
	kept := &b.B[:1][0]
	b.B = append(b.B, make([]byte, 100_000)...)
	b.release()
	b = newBuffer(512)
	if cap(b.B) != 512 {
		t.Errorf("a buffer of the smallest class has capacity %d after one was outgrown, want 512", cap(b.B))
	}
	_ = kept
	b.release()
}

// Large buffers are used again, up to a bound, and let go when nobody needs them any more.
func TestLargeBuffersAreBoundedAndLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		var s bufferStock
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.run(ctx)
		b := s.get(size)
		first := &b.B[:1][0]
		b.release()
		if got := s.kept(); got != size {
			t.Fatalf("%d bytes kept after one buffer of %d came back", got, size)
		}
		if b = s.get(size); &b.B[:1][0] != first {
			t.Error("the buffer that came back was not used again")
		}
		b.release()

		many := make([]*buffer, 3*stockBytes/size)
		for i := range many {
			many[i] = s.get(size)
		}
		for _, b := range many {
			b.release()
		}
		if got := s.kept(); got != stockBytes {
			t.Errorf("%d bytes kept after %d came back, want %d", got, len(many)*size, stockBytes)
		}

		// Two are needed now and then: the others go, those stay.
		for range 8 {
			x, y := s.get(size), s.get(size)
			x.release()
			y.release()
			<-time.After(stockInterval / 2)
		}
		synctest.Wait()
		if got := s.kept(); got != 2*size {
			t.Errorf("%d bytes kept while two buffers are in use, want %d", got, 2*size)
		}
		<-time.After(4 * stockInterval)
		synctest.Wait()
		if got := s.kept(); got != 0 {
			t.Errorf("%d bytes kept long after the last use, want none", got)
		}
		s.get(size).release()
		if got := s.kept(); got != size {
			t.Errorf("%d bytes kept after a new beginning, want %d", got, size)
		}
	})
}
