package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy stands between clients and a broker, passes on what they say and records it. Answers that name brokers are
// changed so that clients stay on the proxy: each further broker of a cluster gets a port of its own.
type Proxy struct {
	upstream string
	out      io.Writer
	log      func(string)
	began    time.Time
	first    net.Listener
	wg       sync.WaitGroup
	end      context.CancelCauseFunc // set before the first connection

	mu       sync.Mutex // also held while an event is written: one write each, in their order
	last     time.Duration
	sessions Recorded
	fronts   map[string]net.Listener // by the broker's address: where clients find it
}

// Recorded counts what a proxy has written.
type Recorded struct{ Connections, Requests, Answers int }

// ListenProxy listens for clients of upstream, both HOST:PORT, and begins the session in out, which gets one Write for
// each event. It fails when upstream cannot be reached. log, when it is not nil, is told of what goes wrong on a
// connection.
func ListenProxy(ctx context.Context, listen, upstream string, out io.Writer, log func(string)) (*Proxy, error) {
	b, err := Reach(ctx, upstream)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = func(string) {}
	}
	p := &Proxy{upstream: upstream, out: out, log: log, began: time.Now(), first: ln, fronts: map[string]net.Listener{upstream: ln}}
	_, err = out.Write(sessionHead())
	if err == nil {
		err = p.write(&Event{Kind: Began, Started: p.began, Broker: upstream, Product: b.Product})
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.first.Addr().String() }

// Recorded returns the counts so far.
func (p *Proxy) Recorded() Recorded {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions
}

// Run serves until ctx ends, which is no error, or until the session cannot be written or a listener fails. Then all connections are closed
// and their ends recorded.
func (p *Proxy) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.end = cancel
	p.wg.Go(func() { p.accept(ctx, p.first, p.upstream) })
	<-ctx.Done()
	p.mu.Lock()
	fronts := maps.Clone(p.fronts)
	p.mu.Unlock()
	for _, ln := range fronts {
		_ = ln.Close() // several brokers may share one
	}
	p.wg.Wait()
	var failed *proxyError
	if errors.As(context.Cause(ctx), &failed) {
		return failed
	}
	return nil
}

// proxyError means that the session ends here: it could not be written, or no further client could connect.
type proxyError struct {
	doing string
	err   error
}

func (e *proxyError) Error() string { return e.doing + ": " + e.err.Error() }
func (e *proxyError) Unwrap() error { return e.err }

// write appends an event.
func (p *Proxy) write(e *Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case Opened:
		p.sessions.Connections++
		e.Connection = p.sessions.Connections
	case RequestSent:
		p.sessions.Requests++
	case AnswerSent:
		p.sessions.Answers++
	}
	p.last = max(p.last, time.Since(p.began))
	e.Offset = p.last
	if _, err := p.out.Write(e.block()); err != nil {
		failed := &proxyError{"write the session", err}
		if p.end != nil {
			p.end(failed)
		}
		return failed
	}
	return nil
}

func (p *Proxy) accept(ctx context.Context, ln net.Listener, broker string) {
	for {
		client, err := ln.Accept()
		if err != nil {
			p.end(&proxyError{"accept on " + ln.Addr().String(), err}) // of no effect after the end
			return
		}
		p.wg.Go(func() { p.serve(ctx, client, broker) })
	}
}

// front returns the listener that stands for a broker, a new one at first sight.
func (p *Proxy) front(ctx context.Context, broker string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ln, ok := p.fronts[broker]; ok {
		return ln, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(p.first.Addr().String())
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	p.fronts[broker] = ln
	p.wg.Go(func() { p.accept(ctx, ln, broker) })
	return ln, nil
}

// serve passes on what one client and a broker say until one of them ends it.
func (p *Proxy) serve(ctx context.Context, client net.Conn, broker string) {
	defer client.Close()
	upstream, err := dial(ctx, broker)
	if err != nil {
		p.log(fmt.Sprintf("a client is sent away: %v", err))
		return
	}
	defer upstream.Close()
	opened := &Event{Kind: Opened, Broker: broker}
	if p.write(opened) != nil {
		return
	}
	c := &relay{proxy: p, number: opened.Connection, client: client, broker: upstream, guard: newGuard()}
	var ended atomic.Int32 // the Party that ended it first
	finish := func(by Party, err error) {
		if !ended.CompareAndSwap(0, int32(by)) {
			return
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
			p.log(fmt.Sprintf("connection %d: %v", c.number, err))
		}
		_ = client.Close()
		_ = upstream.Close()
	}
	stop := context.AfterFunc(ctx, func() { finish(ByProxy, nil) })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { finish(c.requests()) })
	both.Go(func() { finish(c.answers(ctx)) })
	both.Wait()
	_ = p.write(&Event{Kind: Closed, Connection: c.number, By: Party(ended.Load())})
}

// relay is one connection through the proxy.
type relay struct {
	proxy  *Proxy
	number int
	client net.Conn
	broker net.Conn
	mu     sync.Mutex // guards guard
	guard  *guard
}

// requests passes on what the client sends, and returns who ended that.
func (c *relay) requests() (Party, error) {
	for {
		frame, err := readFrame(c.client)
		if err != nil {
			return endedBy(err, ByClient), err
		}
		c.mu.Lock()
		kept, flags, _ := c.guard.request(frame)
		c.mu.Unlock()
		if err := c.keep(RequestSent, frame, kept, flags); err != nil {
			return ByProxy, nil
		}
		if err := writeFrame(c.broker, frame); err != nil {
			return ByBroker, nil
		}
	}
}

// answers passes on what the broker sends.
func (c *relay) answers(ctx context.Context) (Party, error) {
	for {
		frame, err := readFrame(c.broker)
		if err != nil {
			return endedBy(err, ByBroker), err
		}
		c.mu.Lock()
		kept, flags, m := c.guard.answer(frame)
		c.mu.Unlock()
		if err := c.keep(AnswerSent, frame, kept, flags); err != nil {
			return ByProxy, nil
		}
		switch {
		case m == nil:
		case m.fault != "":
			c.proxy.log(fmt.Sprintf("connection %d: %s v%d is passed on as it came: %s", c.number, m.api.Name, m.call.version, m.fault))
		case m.root != nil:
			if frame, err = c.readdressed(ctx, m); err != nil {
				return ByProxy, fmt.Errorf("%s v%d names a broker that the proxy cannot stand for: %w", m.api.Name, m.call.version, err)
			}
		}
		if err := writeFrame(c.client, frame); err != nil {
			return ByClient, nil
		}
	}
}

// readdressed is an answer as the client gets it.
func (c *relay) readdressed(ctx context.Context, m *message) ([]byte, error) {
	if only := onlyBroker(m); only != "" {
		// A cluster of one: whatever it calls itself, it is the broker at hand.
		c.proxy.mu.Lock()
		if _, ok := c.proxy.fronts[only]; !ok {
			c.proxy.fronts[only] = c.proxy.first
		}
		c.proxy.mu.Unlock()
	}
	host, _, err := net.SplitHostPort(c.client.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	e, err := readdress(m.root, func(addr string) (string, int64, error) {
		ln, err := c.proxy.front(ctx, addr)
		if err != nil {
			return "", 0, err
		}
		return host, int64(ln.Addr().(*net.TCPAddr).Port), nil
	})
	if err != nil {
		return nil, err
	}
	maps.Copy(e, withinSchema(m))
	return m.splice(e)
}

// keep records of a frame what the guard lets through.
func (c *relay) keep(kind EventKind, frame, kept []byte, flags EventFlags) error {
	return c.proxy.write(&Event{Kind: kind, Connection: c.number, Flags: flags, Frame: kept, Length: len(frame)})
}

func endedBy(err error, peer Party) Party {
	var bad *frameError
	if errors.As(err, &bad) {
		return ByProxy
	}
	return peer
}
