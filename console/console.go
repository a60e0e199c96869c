// Package console is what people and monitoring see of a gateway over HTTP: /metrics for Prometheus, /health for whether
// the process is alive, /ready for whether it takes clients. It has nothing to do on the way of a request: a scrape reads
// the snapshots that the other packages offer, and those take no lock that somebody holds while the disk is at work.
package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Descriptors is how many a Console uses at a time for its clients: those who are served, and one who waits for room.
const Descriptors = mostConnections + 1

// What a client may take. Who sends garbage, or takes its time, loses its connection, and so does who says nothing when
// somebody else comes.
const (
	mostConnections = 32
	maxHeaderBytes  = 16 << 10
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second // of a whole request
	writeTimeout    = 30 * time.Second // from the end of its headers to the end of its answer
	idleTimeout     = 10 * time.Second
)

// Options configures a Console. Listener, Snapshot and Ready must be set.
type Options struct {
	// Listener is bound already. Run accepts on it and closes it.
	Listener net.Listener
	// Snapshot is asked for at each scrape, by several goroutines at once.
	Snapshot func() Snapshot
	// Ready returns why clients are not served at the moment; nil when they are.
	Ready func() error
	// Logger receives why a connection could not be accepted and, at debug level, what is wrong with clients, and errors of
	// scrapes; nil discards.
	Logger *slog.Logger
}

// Console answers HTTP clients.
type Console struct {
	listener *listener
	server   http.Server
	serving  sync.WaitGroup // connections, from being accepted on until nothing of them is left
	ready    func() error
}

// New returns a Console. It starts nothing: Run does.
func New(o Options) *Console {
	if o.Listener == nil || o.Snapshot == nil || o.Ready == nil {
		panic("console: Options.Listener, Options.Snapshot and Options.Ready must be set")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(o.Snapshot), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	faults := slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)
	mux := http.NewServeMux()
	c := &Console{listener: newListener(o.Listener, mostConnections, o.Logger), ready: o.Ready}
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: faults, ErrorHandling: promhttp.ContinueOnError, DisableCompression: true,
	}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /ready", c.sayReady)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "/metrics\n/health\n/ready") })
	c.server = http.Server{
		Handler: answering(mux), ErrorLog: faults,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ConnContext:    func(ctx context.Context, nc net.Conn) context.Context { return context.WithValue(ctx, connKey{}, nc) },
		ConnState: func(nc net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				c.serving.Add(1)
			case http.StateIdle:
				nc.(*conn).setAnswered(false)
			case http.StateClosed, http.StateHijacked:
				c.serving.Done()
			}
		},
	}
	return c
}

// Run answers until ctx ends, then closes everything and returns when nothing is left. It is called once.
func (c *Console) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.listener.Close() })
	defer stop()
	err := c.server.Serve(c.listener) // returns when the listener is closed
	_ = c.listener.Close()
	c.serving.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("http: %w", err)
}

// connKey is the key of the connection in a request's context.
type connKey struct{}

// answering notes that a connection is being answered, until it is idle. Not so for a request with a body, which nothing
// here reads: net/http waits for the rest of it before the answer goes out, and the client may never send it.
func answering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			r.Context().Value(connKey{}).(*conn).setAnswered(true)
		}
		h.ServeHTTP(w, r)
	})
}

// sayReady answers /ready.
func (c *Console) sayReady(w http.ResponseWriter, _ *http.Request) {
	if err := c.ready(); err != nil {
		say(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	say(w, http.StatusOK, "ready")
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
