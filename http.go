package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/kaen-log/gateway/console"
)

// listenHTTP binds gateway.http.listen, if it is set. Without a host it is on loopback.
func (g *Gateway) listenHTTP(ctx context.Context, address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		if host == "" {
			host = "127.0.0.1"
		}
		var lc net.ListenConfig
		g.http, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	}
	if err != nil {
		return fmt.Errorf("gateway.http.listen: %w", err)
	}
	g.logger.Info("metrics and health are served over HTTP", "address", g.http.Addr().String())
	return nil
}

func (g *Gateway) closeHTTP() {
	if g.http != nil {
		_ = g.http.Close()
	}
}

// HTTPAddr returns where metrics and health are served, nil when they are not.
func (g *Gateway) HTTPAddr() net.Addr {
	if g.http == nil {
		return nil
	}
	return g.http.Addr()
}

// newConsole returns what serves there; nil when nothing does.
func (g *Gateway) newConsole() *console.Console {
	if g.http == nil {
		return nil
	}
	return console.New(console.Options{Listener: g.http, Snapshot: g.snapshot, Ready: g.ready, Logger: g.logger})
}

// snapshot is what the parts say of themselves at the moment.
func (g *Gateway) snapshot() console.Snapshot {
	s := console.Snapshot{
		Storage: g.store.Stats(), Counts: g.store.Counts(), Cleaner: g.cleaner.Stats(), Groups: g.groups.Stats(), Txns: g.txns.Stats(),
		Wire: g.server.Stats(), APIs: g.server.APIStats(), Errors: g.server.ErrorStats(),
	}
	s.RequestMemory, s.AnswerMemory = g.server.Bounds()
	return s
}

// ready says why clients are not served any more.
func (g *Gateway) ready() error {
	if g.stopping.Load() {
		return errors.New("the gateway is stopping")
	}
	return g.Err()
}
