package wire

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestIdleConnectionsAreClosed(t *testing.T) { // NET-07
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"connections.max.idle.ms": "10000"})
		s.topic("orders", 1)
		began := time.Now()
		silent, half, parked, busy := s.dial(t), s.dial(t), s.dial(t), s.dial(t)
		half.write([]byte{0, 0})
		fetch := parkedFetch("orders", 25*time.Second)
		parked.send(fetch)
		closed := func(c *client, want time.Duration) {
			t.Helper()
			c.expectClosed("idle")
			if d := time.Since(began); d < want || d > want+time.Second {
				t.Errorf("closed after %v, want %v", d, want)
			}
		}
		for range 3 {
			wait(5 * time.Second)
			if time.Since(began) < 15*time.Second {
				busy.call(versions())
			}
			if time.Since(began) == 10*time.Second {
				closed(silent, 10*time.Second)
				closed(half, 10*time.Second)
			}
		}
		closed(busy, 20*time.Second)
		parked.receive(fetch, 1)
		if d := time.Since(began); d != 25*time.Second {
			t.Errorf("the parked fetch was answered after %v, want 25s", d)
		}
		closed(parked, 35*time.Second)
	})
}

// wait lets time pass in a bubble.
func wait(d time.Duration) { <-time.After(d) }

func TestPeerThatLeavesEndsItsParkedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		c := s.dial(t)
		c.send(parkedFetch("orders", time.Hour))
		synctest.Wait()
		began := time.Now()
		_ = c.Close()
		synctest.Wait()
		if n := s.s.Stats().Connections; n != 0 || time.Since(began) != 0 {
			t.Errorf("%d connections %v after the peer left, want none at once", n, time.Since(began))
		}
	})
}

func TestShutdownAnswersWhatWasReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk heldSync
		s := newServerOn(t, disk.on(vfs.NewMem(vfs.MemOptions{})), nil)
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch("first"))
		s.topic("empty", 1)
		release := disk.hold()
		parked, producing, silent := s.dial(t), s.dial(t), s.dial(t)
		fetch := parkedFetch("empty", time.Hour)
		parked.send(fetch)
		produce := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		producing.send(produce)
		synctest.Wait()
		stopped := make(chan error)
		go func() { stopped <- s.s.Shutdown(context.Background()) }()
		parked.receive(fetch, 1)
		parked.expectClosed("shutdown")
		silent.expectClosed("shutdown")
		producing.idle("while the disk is held")
		release()
		if p := producing.receive(produce, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Errorf("produce answers code %d, want 0", p.ErrorCode)
		}
		producing.expectClosed("shutdown")
		if err := <-stopped; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-s.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		s.ended <- nil
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		c := s.dial(t)
		c.send(versions()) // whose answer is never read
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v, want the context's error", err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("Shutdown took %v, want 3s", d)
		}
	})
}

func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"max.connections.per.ip": "2"})
		a, b := s.dial(t), s.dial(t)
		s.dial(t).expectClosed("third connection of an address")
		a.call(versions())
		_ = a.Close()
		synctest.Wait()
		s.dial(t).call(versions())
		b.call(versions())
		if got := s.s.Stats(); got.Refused != 1 || got.Connections != 2 {
			t.Errorf("Stats %+v, want 1 refused and 2 connections", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"max.connections": "1"})
		a := s.dial(t)
		a.call(versions())
		connected := make(chan *client)
		go func() { connected <- s.dial(t) }()
		synctest.Wait()
		select {
		case <-connected:
			t.Error("a second connection was accepted, want it to wait")
		default:
		}
		_ = a.Close()
		(<-connected).call(versions())
	})
}

func TestRefusedConnectionsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"max.connections.per.ip": "1"})
		s.dial(t).call(versions())
		const n = 5000
		kept(t, "5000 connections that were refused", 128<<10, func() {
			for range n {
				near, far := net.Pipe()
				s.listener.conns <- far
				if _, err := near.Read(make([]byte, 1)); err == nil {
					t.Fatal("the second connection of an address got an answer")
				}
			}
		})
		if got := s.s.Stats(); got.Refused != n || got.Connections != 1 {
			t.Errorf("Stats %+v, want %d refused and 1 connection", got, n)
		}
	})
}

func TestConnectionsStayWithinTheBoundFromOutside(t *testing.T) {
	s := newBroker(t, map[string]string{"max.connections": "100"}).s
	for _, test := range []struct{ bound, want int64 }{{0, 100}, {7, 7}, {200, 100}} {
		s.maxConns = test.bound
		if got := s.mostConnections(); got != test.want {
			t.Errorf("bound %d with max.connections=100: got %d connections, want %d", test.bound, got, test.want)
		}
	}
}
