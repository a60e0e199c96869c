package console

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a listener that hands out pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// site is a running console in a synctest bubble.
type site struct {
	t     *testing.T
	pipes *pipes
	ready error
	stop  func() // ends Run and waits
}

func newSite(t *testing.T) *site {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	return runSite(t, p, p)
}

// runSite runs a console on a listener that hands out what p has.
func runSite(t *testing.T, p *pipes, l net.Listener) *site {
	s := &site{t: t, pipes: p}
	c := New(Options{Listener: l, Snapshot: busy, Ready: func() error { return s.ready }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

// dial connects; it waits for a place.
func (s *site) dial() net.Conn {
	near, far := net.Pipe()
	s.pipes.conns <- far
	s.t.Cleanup(func() { _ = near.Close() })
	return near
}

// send writes a request in the background and returns the connection's reader.
func (s *site) send(c net.Conn, text string) *bufio.Reader {
	go func() { _, _ = io.WriteString(c, text) }() // ends when all is read or c is closed
	return bufio.NewReader(c)
}

// do answers a request that has only a first line, on a connection of its own.
func (s *site) do(line string) (status int, body string) {
	s.t.Helper()
	method, _, _ := strings.Cut(line, " ")
	resp, err := http.ReadResponse(s.send(s.dial(), line+" HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"), &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	return resp.StatusCode, string(b)
}

func TestPathsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		for _, c := range []struct {
			line   string
			status int
			body   string // is in the body
		}{
			{"GET /health", 200, "alive\n"},
			{"GET /ready", 200, "ready\n"},
			{"GET /metrics", 200, "gateway_cleaner_partition_set_aside{partition=\"7\",topic=\"payments\"} 1\n"},
			{"GET /metrics", 200, "\ngo_goroutines "},
			{"GET /", 200, "/metrics\n"},
			{"GET /debug/pprof/", 404, ""},
			{"GET /metrics/", 404, ""},
			{"POST /metrics", 405, ""},
			{"HEAD /health", 200, ""},
		} {
			if status, body := s.do(c.line); status != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%s: got %d and %d bytes, want %d and %q in\n%s", c.line, status, len(body), c.status, c.body, body)
			}
		}
		s.ready = errors.New("the gateway is stopping")
		if status, body := s.do("GET /ready"); status != 503 || body != "not ready: the gateway is stopping\n" {
			t.Errorf("while it is stopping /ready is %d %q, want 503 and why", status, body)
		}
		if status, _ := s.do("GET /health"); status != 200 {
			t.Errorf("while it is stopping /health is %d, want 200", status)
		}
	})
}

// TestSlowAndStrangeClientsAreCutOff has each kind of them lose its connection after its time.
func TestSlowAndStrangeClientsAreCutOff(t *testing.T) {
	for _, c := range []struct {
		name, text string
		after      time.Duration
	}{
		{"silent", "", headerTimeout},
		{"half a header", "GET /metrics HTTP/1.1\r\nHo", headerTimeout},
		{"a Kafka client", "\x00\x00\x00\x10\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04test\r\n\r\n", 0},
		{"headers without an end", "GET /metrics HTTP/1.1\r\nX: " + strings.Repeat("x", 2*maxHeaderBytes), 0},
		{"half a body", "POST /metrics HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\nhalf", readTimeout},
		{"idle afterwards", "GET /health HTTP/1.1\r\nHost: g\r\n\r\n", idleTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			began := time.Now()
			_, _ = io.Copy(io.Discard, s.send(s.dial(), c.text)) // until it is closed
			// net/http lets what it has answered lie for half a second before it closes.
			if took := time.Since(began); took < c.after || took > c.after+time.Second {
				t.Errorf("%s: cut off after %s, want %s", c.name, took, c.after)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		began := time.Now()
		conn := s.dial()
		_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: g\r\n\r\n") // and reads nothing
		synctest.Wait()
		wait(writeTimeout)
		synctest.Wait()
		_, whole := s.do("GET /metrics")
		if n, _ := io.Copy(io.Discard, conn); n >= int64(len(whole)) {
			t.Errorf("got %d bytes after %s, want the connection closed in the middle of %d", n, time.Since(began), len(whole))
		}
	})
}

// wait lets time pass in a bubble.
func wait(d time.Duration) { <-time.After(d) }

// isClosed reports whether the console has closed a connection to which it has nothing to say.
func isClosed(c net.Conn) bool {
	err := c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestTheConnectionThatIsSilentLongestMakesRoom has as many that say nothing, or not enough, as there may be.
func TestTheConnectionThatIsSilentLongestMakesRoom(t *testing.T) {
	for _, c := range []struct{ name, first, second string }{
		{"new", "", ""},
		{"half a header", "GET /metr", "ics HTTP/1.1\r\n"},
		{"half a body", "POST /metrics HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\n", "half"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			var conns []net.Conn
			for range mostConnections {
				conn := s.dial()
				_, _ = io.WriteString(conn, c.first)
				synctest.Wait() // until it is received
				conns = append(conns, conn)
			}
			spoke := c.second != ""
			if spoke { // the first is not silent longest then
				_, _ = io.WriteString(conns[0], c.second)
			}
			synctest.Wait()
			began := time.Now()
			for _, path := range []string{"/health", "/ready", "/metrics"} {
				if status, _ := s.do("GET " + path); status != 200 {
					t.Errorf("%s: %s: got %d, want 200", c.name, path, status)
				}
				synctest.Wait()
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: one more is served after %s, want at once", c.name, took)
			}
			for i, conn := range conns {
				if got, want := isClosed(conn), spoke && i == 1 || !spoke && i == 0; got != want {
					t.Errorf("%s: connection %d: closed %t, want %t: only who was silent longest", c.name, i, got, want)
				}
			}
		})
	}
}

// TestConnectionsThatAreAnsweredKeepTheirPlaces has all of them be in the middle of their answers.
func TestConnectionsThatAreAnsweredKeepTheirPlaces(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes bool // one of them takes its answer, and keeps its connection
		after time.Duration
	}{
		{"nobody takes the answer", false, writeTimeout},
		{"one does", true, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t)
			var conns []net.Conn
			for range mostConnections {
				conn := s.dial()
				_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: g\r\n\r\n")
				conns = append(conns, conn)
			}
			synctest.Wait()
			began := time.Now()
			if c.takes {
				go func() {
					wait(c.after)
					resp, err := http.ReadResponse(bufio.NewReader(conns[7]), nil)
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
					}
					if err != nil {
						t.Errorf("%s: the answer: %v", c.name, err)
					}
				}()
			}
			if status, _ := s.do("GET /health"); status != 200 {
				t.Errorf("%s: got %d, want 200", c.name, status)
			}
			if took := time.Since(began); took != c.after {
				t.Errorf("%s: one more is served after %s, want %s", c.name, took, c.after)
			}
		})
	}
}

// TestStopEndsEveryConnection has connections in each state when it stops, and no room for another.
func TestStopEndsEveryConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		conns := []net.Conn{s.dial(), s.dial(), s.dial()}
		s.send(conns[0], "GET /metr")
		_, _ = io.WriteString(conns[1], "GET /metrics HTTP/1.1\r\nHost: g\r\n\r\n") // and reads nothing
		kept := s.send(conns[2], "GET /health HTTP/1.1\r\nHost: g\r\n\r\n")
		if _, err := http.ReadResponse(kept, nil); err != nil {
			t.Fatal(err)
		}
		for range mostConnections - len(conns) {
			s.dial()
		}
		synctest.Wait()
		began := time.Now()
		s.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("the stop took %s, want none", took)
		}
		for i, c := range conns {
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("connection %d: %v, want it closed", i, err)
			}
		}
	})
}

// TestAcceptThatFailsIsTriedAgain has no file descriptor be left for a while, and the system name faults of its own: neither
// ends Run, which would end the gateway.
func TestAcceptThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := &failing{pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, faults: 20}
		s := runSite(t, failing.pipes, failing)
		began := time.Now()
		if status, _ := s.do("GET /health"); status != 200 {
			t.Errorf("got %d, want 200", status)
		}
		if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("20 failures took %s, want pauses that grow to a second", took)
		}
		synctest.Wait()
		failing.faults = 1 << 30
		_ = s.dial()
		synctest.Wait()
		began = time.Now()
		s.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("the stop took %s, want none", took)
		}
	})
}

// failing is a listener whose first calls of Accept fail.
type failing struct {
	*pipes
	faults int // how many are left
}

func (f *failing) Accept() (net.Conn, error) {
	if f.faults > 0 {
		f.faults--
		return nil, errors.New("no buffer space available")
	}
	return f.pipes.Accept()
}
