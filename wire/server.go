package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/groups/share"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/txn"
)

// Options configures a Server. Store and Config must be set.
type Options struct {
	Store  *storage.Store
	Groups *groups.Coordinator
	Shares *share.State // the share partitions
	Txns   *txn.Coordinator
	// Now is the clock for everything that is decided by time; nil is the system's. Socket deadlines always use that.
	Now func() time.Time
	// Logger receives what a person running the server should know; nil discards.
	Logger *slog.Logger
	// Config is the broker's configuration. Reads of it see changes made while running.
	Config *BrokerConfig
	// LogLevel is the level of Logger, which clients may change as that of the broker's logger root; nil is one that
	// nothing else looks at.
	LogLevel *slog.LevelVar
	// Listeners are bound already. Run accepts on them and closes them.
	Listeners []Listener
	// MaxConnections is the most connections that may be open, whatever Config says; 0 leaves it to that.
	MaxConnections int64
}

// Listener is a bound socket and the address that clients which came in by it are told.
type Listener struct {
	Name string // as in listeners=, upper case
	net.Listener
	AdvertisedHost string
	AdvertisedPort int32
	// SASL is how clients prove who they are before they are served; nil lets everyone in as User:ANONYMOUS.
	SASL *SASL
}

// Server answers Kafka clients on its listeners.
type Server struct {
	store     *storage.Store
	groups    *groups.Coordinator
	shares    *share.State
	txns      *txn.Coordinator
	now       func() time.Time
	logger    *slog.Logger
	logLevel  *slog.LevelVar
	config    *BrokerConfig
	listeners []Listener
	apis      *apiTable

	authorizer *auth.Authorizer // nil lets everyone do everything

	maxConns int64         // Options.MaxConnections, 0 for none
	maxFrame int32         // socket.request.max.bytes
	idle     time.Duration // connections.max.idle.ms

	// self and nobody are the replica lists of this broker alone and of none. Shared, never written.
	self, nobody []int32

	requests memory // of frames in flight
	answers  memory // of answers in flight
	// requestTurns are for large requests that are being answered, answerTurns for large answers that are being made. Who
	// has one of the former may wait for one of the latter.
	requestTurns, answerTurns turns
	cutting                   sync.Mutex // held while it is looked for connections that stall
	stalledAt                 time.Time  // when a peer was last found not to take its answer; guarded by cutting
	// arrivedAt is the function of that name, unless a test has another.
	arrivedAt func(net.Conn) arrival
	buffers   bufferStock
	decoding  sync.Mutex // held while a large request that is no Produce is decoded
	fetches   fetchCache // incremental fetch sessions

	// stopping ends when the server stops: parked requests answer what they have. killed ends when it also stops
	// waiting for those answers and for the disk.
	stopping context.Context
	stop     context.CancelFunc
	killed   context.Context
	kill     context.CancelFunc

	quotas     clientQuotas
	turnedAway atomic.Int64 // connections over their address's quota that are not closed yet

	altering sync.Mutex // held while configs change, over the write to the metadata log, so that no change is lost

	starting sync.Mutex // orders Run's first step and Shutdown's

	closedLines, cutLines, fullLines, refusedLines sparseLines

	decoy *auth.ScramDecoy // for users of SCRAM who are not there

	conns connections
	wg    sync.WaitGroup // accept loops and connections

	counts counters
	byAPI  apiCounters
}

// neverIdle stands for no limit: connections.max.idle.ms below zero, as in Kafka.
const neverIdle = 10 * 365 * 24 * time.Hour

// counters are what Stats reports. Written anywhere, without a lock.
type counters struct {
	accepted, refused, requests, malformed, unsupported atomic.Int64
	authenticated, unauthenticated                      atomic.Int64
	throttled                                           atomic.Int64
	cutAtStop                                           atomic.Int64 // connections that were cut off since the server stops
}

// New returns a server. It starts nothing: Run does.
func New(o Options) (*Server, error) {
	var faults []error
	if o.Store == nil {
		faults = append(faults, errors.New("no store"))
	}
	if o.Config == nil {
		faults = append(faults, errors.New("no config"))
	}
	for i, l := range o.Listeners {
		if l.Listener == nil {
			faults = append(faults, fmt.Errorf("listener %d (%s) is not bound", i, l.Name))
		}
	}
	if o.Config != nil {
		if _, err := parseIPOverrides(o.Config.List("max.connections.per.ip.overrides")); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = vfs.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LogLevel == nil {
		o.LogLevel = new(slog.LevelVar)
	}
	s := &Server{
		store: o.Store, groups: o.Groups, shares: o.Shares, txns: o.Txns, now: o.Now, logger: o.Logger, logLevel: o.LogLevel, config: o.Config, listeners: o.Listeners,
		apis: apis, authorizer: newAuthorizer(o.Config), maxConns: o.MaxConnections, arrivedAt: arrivedAt, byAPI: newAPICounters(apis),
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	s.decoy = auth.NewScramDecoy(secret)
	s.loadDynamicConfigs()
	s.loadDynamicSASL()
	s.openQuotas()
	s.maxFrame = int32(o.Config.Int("socket.request.max.bytes"))
	s.idle = neverIdle
	if ms := o.Config.Int("connections.max.idle.ms"); ms >= 0 && ms < neverIdle.Milliseconds() {
		s.idle = time.Duration(ms) * time.Millisecond
	}
	s.self, s.nobody = []int32{o.Store.NodeID()}, []int32{}
	s.requests.setLimit(o.Config.Int("gateway.request.memory.bytes"))
	s.answers.setLimit(o.Config.Int("gateway.answer.memory.bytes"))
	var framesLooked, answersLooked time.Time
	s.requests.onWait(func() {
		if s.cutStalled(&framesLooked, (*conn).keepsFrames) {
			s.hurryParked()
		}
	})
	s.answers.onWait(func() { s.cutStalled(&answersLooked, (*conn).keepsAnswers) })
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.killed, s.kill = context.WithCancel(context.Background())
	return s, nil
}

// Run accepts and serves connections. It returns when all of them are through after Shutdown, or, when ctx ends first,
// after cutting them off. It is called once.
func (s *Server) Run(ctx context.Context) error {
	s.starting.Lock()
	if s.stopping.Err() == nil {
		for i := range s.listeners {
			l := &s.listeners[i]
			s.wg.Go(func() { s.accept(l) })
		}
		s.wg.Go(func() { s.buffers.run(s.stopping) })
	}
	s.starting.Unlock()
	select {
	case <-ctx.Done():
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ended)
	case <-s.stopping.Done():
	}
	s.wg.Wait()
	s.closedLines.flush(s, "connections closed")
	s.cutLines.flush(s, "connections cut")
	s.refusedLines.flush(s, "clients not authenticated")
	return nil
}

// Shutdown stops accepting, lets what is parked answer with what it has, answers what was received, and closes the
// connections; a peer that has not taken its answers after stopPatience is cut off. When ctx ends first, it cuts off the
// rest and returns an error that wraps ctx's. It may be called before Run and more than once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.starting.Lock()
	s.stop()
	s.starting.Unlock()
	for i := range s.listeners {
		_ = s.listeners[i].Close()
	}
	for _, c := range s.conns.all() {
		c.interrupt()
	}
	through := make(chan struct{})
	go func() { // ends with the last connection, which killing them makes sure of
		s.wg.Wait()
		close(through)
	}()
	if s.awaitPeers(ctx, through) {
		s.kill()
		return nil
	}
	s.kill()
	left := s.conns.all()
	for _, c := range left {
		_ = c.socket.Close()
	}
	<-through
	return fmt.Errorf("%d connections were cut off, whose answers were not all taken: %w", len(left), ctx.Err())
}

// Stats is a snapshot of what the server does.
type Stats struct {
	Connections  int64 // open now
	Accepted     int64 // since the start
	Refused      int64 // over max.connections.per.ip, or a quota of their address
	Requests     int64 // started
	Malformed    int64 // frames that ended their connection
	Unsupported  int64 // of those, for a key or version that is not served
	Throttled    int64 // whose client had to rest, over a quota
	RequestBytes int64 // held by frames in flight
	AnswerBytes  int64 // held by answers in flight
	MemoryWaits  int64 // how often a frame or an answer waited for memory

	Authentications       int64 // exchanges of SASL that went well
	FailedAuthentications int64 // and those that did not

	FetchSessions          int64 // incremental fetch sessions
	FetchSessionPartitions int64 // partitions in them
	FetchSessionEvictions  int64 // sessions that made room for others
}

// Stats returns a snapshot. It waits for nothing but short locks.
func (s *Server) Stats() Stats {
	sessions, partitions, evictions := s.fetches.stats()
	return Stats{
		Connections:  int64(s.conns.count()),
		Accepted:     s.counts.accepted.Load(),
		Refused:      s.counts.refused.Load(),
		Requests:     s.counts.requests.Load(),
		Malformed:    s.counts.malformed.Load(),
		Unsupported:  s.counts.unsupported.Load(),
		Throttled:    s.counts.throttled.Load(),
		RequestBytes: s.requests.used(),
		AnswerBytes:  s.answers.used(),
		MemoryWaits:  s.requests.waits() + s.answers.waits(),

		Authentications:       s.counts.authenticated.Load(),
		FailedAuthentications: s.counts.unauthenticated.Load(),

		FetchSessions:          sessions,
		FetchSessionPartitions: partitions,
		FetchSessionEvictions:  evictions,
	}
}
