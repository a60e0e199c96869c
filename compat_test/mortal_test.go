package compat_test

import (
	"context"
	"errors"
	"net"
	"sync"
)

// mortalDialer makes connections until it is killed, which ends them all: what the broker sees of a client whose
// machine dies.
type mortalDialer struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (d *mortalDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errors.New("killed by the test")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		d.conns = append(d.conns, c)
	}
	return c, err
}

func (d *mortalDialer) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	for _, c := range d.conns {
		_ = c.Close()
	}
}
