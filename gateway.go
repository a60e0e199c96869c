// Package gateway is a Kafka-compatible server in one process: Kafka's wire
// protocol over a durable segment store in Kafka's own files. Start brings up
// storage, the group coordinator and the listeners; Shutdown answers what is
// under way and leaves files that need no recovery.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kaen-log/gateway/cleaner"
	"github.com/kaen-log/gateway/console"
	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/groups/share"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/txn"
	"github.com/kaen-log/gateway/wire"
)

// Options says what Start serves and where. The zero value serves
// 127.0.0.1:9092 from ./gateway-data.
type Options struct {
	// Dir is the data directory; made when missing. Default "gateway-data".
	Dir string
	// Memory keeps everything in memory: same store, nothing outlives the
	// process. Dir is not touched.
	Memory bool
	// MemoryCapacity bounds the bytes kept with Memory; beyond it appends fail as
	// on a full disk. Default 1 GiB.
	MemoryCapacity int64
	// FS replaces the file system, for tests; Memory is ignored with it.
	FS vfs.FS
	// Config holds broker configs by Kafka's names (log.retention.ms,
	// num.partitions, gateway.durability, …). An unknown key is an error.
	Config map[string]string
	// Now is the clock that everything which decides by time asks. Default
	// time.Now.
	Now func() time.Time
	// Logger takes the log lines. Default: slog.Default().
	Logger *slog.Logger
	// LogLevel is the level of Logger; clients may change it, as that of Kafka's
	// logger root. Default: one that Logger does not follow.
	LogLevel *slog.LevelVar

	// answerDuplicatesEarly is storage's option of the name: a test proves with
	// it that it would notice.
	answerDuplicatesEarly bool
}

// defaultListeners is what is served when listeners is not set: loopback only.
const defaultListeners = "PLAINTEXT://127.0.0.1:9092"

// oneBroker are the values that a single Kafka broker needs, as in Kafka's own
// quickstart configuration; they are reported as static configs.
var oneBroker = map[string]string{
	"offsets.topic.replication.factor":                 "1",
	"transaction.state.log.replication.factor":         "1",
	"transaction.state.log.min.isr":                    "1",
	"share.coordinator.state.topic.replication.factor": "1",
	"share.coordinator.state.topic.min.isr":            "1",
	"node.id":                                          "1",
	"process.roles":                                    "broker,controller",
}

func (o *Options) setDefaults() {
	if o.Dir == "" {
		o.Dir = "gateway-data"
	}
	if o.MemoryCapacity == 0 {
		o.MemoryCapacity = 1 << 30
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	config := make(map[string]string, len(o.Config)+len(oneBroker)+1)
	for k, v := range oneBroker {
		config[k] = v
	}
	if _, ok := o.Config["broker.id"]; ok {
		delete(config, "node.id") // its older name
	}
	config["listeners"] = defaultListeners
	for k, v := range o.Config {
		config[k] = v
	}
	o.Config = config
	if o.FS == nil {
		o.FS = vfs.OS()
		if o.Memory {
			o.FS = vfs.NewMem(vfs.MemOptions{Now: o.Now, Capacity: o.MemoryCapacity})
		}
	}
}

// Gateway is a running server.
type Gateway struct {
	store   *storage.Store
	cleaner *cleaner.Cleaner
	server  *wire.Server
	groups  *groups.Coordinator
	txns    *txn.Coordinator
	logger  *slog.Logger
	addrs   []net.Addr
	http    net.Listener // of gateway.http.listen, nil without

	// transactions ends before the rest: markers that are on their way come to the disk, and to the groups.
	transactions, rest loops
	done               chan struct{} // closed when Shutdown is through, or a loop failed

	stopping atomic.Bool // Shutdown has begun

	ended sync.Once
	err   error // why it ended; set before done is closed
}

// Start opens the store, binds the listeners and serves. When it returns, clients
// are answered; partitions recover in the background or at their first use. ctx
// bounds the start only. Errors: a joined list of config faults (*ConfigError),
// storage's errors for a locked or damaged directory, or a listener's error.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	o.setDefaults()
	config, err := wire.NewBrokerConfig(o.Config)
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	if err := checkInternalSegments(config); err != nil {
		return nil, &ConfigError{Err: err}
	}
	listeners, dropped, err := parseListeners(config.List("listeners"), config.List("advertised.listeners"), config.List("controller.listener.names"))
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	for i := range listeners {
		l := &listeners[i]
		var fault error
		l.sasl, fault = config.SASLOf(l.Name)
		err = errors.Join(err, fault)
		if l.sasl != nil && len(l.sasl.NotServed()) > 0 {
			o.Logger.Warn("SASL mechanisms are enabled that are not served", "listener", l.Name, "mechanisms", l.sasl.NotServed())
		}
	}
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	for _, d := range dropped {
		o.Logger.Warn("controller listener dropped: there is no controller quorum to serve", "listener", d)
	}
	storageOptions, err := storageOptions(&o, config)
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	wanted := storageOptions.OpenFiles
	limit := vfs.Descriptors()
	address := config.String("gateway.http.listen")
	var http, most int64
	if address != "" {
		http = console.Descriptors
	}
	storageOptions.OpenFiles, most = divideDescriptors(limit, wanted, http)
	if storageOptions.OpenFiles < wanted {
		o.Logger.Warn("few descriptors: fewer data files stay open and fewer connections are accepted",
			"limit", limit, "files", storageOptions.OpenFiles, "files_wanted", wanted, "connections", most)
	}
	store, err := storage.Open(o.Dir, storageOptions)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", o.Dir, err)
	}
	g := &Gateway{store: store, logger: o.Logger, done: make(chan struct{})}
	bound, err := g.listen(ctx, listeners)
	if err == nil {
		err = g.listenHTTP(ctx, address)
	}
	if err != nil {
		closeAll(bound)
		return nil, errors.Join(err, store.Close())
	}
	shares := share.New(share.Options{Store: store, Now: o.Now, Logger: o.Logger, Config: config.Shares(store)})
	// The two coordinators call each other, and neither does so before it runs.
	g.txns = txn.New(txn.Options{
		Store: store, Now: o.Now, Logger: o.Logger, Config: config.Transactions(),
		EndOffsets: func(ctx context.Context, partition int32, m txn.Marker) error {
			return wire.EndOffsets(ctx, g.groups, partition, m)
		},
	})
	g.groups = groups.New(groups.Options{
		Store:               store,
		Now:                 o.Now,
		Logger:              o.Logger,
		OffsetsPartitions:   int32(config.Int("offsets.topic.num.partitions")),
		OffsetsSegmentBytes: int32(config.Int("offsets.topic.segment.bytes")),
		MaxMetadataLength:   int(config.Int("offset.metadata.max.bytes")),
		CommitTimeout:       time.Duration(config.Int("offsets.commit.timeout.ms")) * time.Millisecond,
		Config:              config.Groups(store),
		ShareState:          shareState(shares),
		Verify:              wire.VerifyOffsets(g.txns),
		Unverified:          config.Unverified,
	})
	g.server, err = wire.New(wire.Options{
		Store:     store,
		Groups:    g.groups,
		Shares:    shares,
		Txns:      g.txns,
		Now:       o.Now,
		Logger:    o.Logger,
		LogLevel:  o.LogLevel,
		Config:    config,
		Listeners: bound,

		MaxConnections: most,
	})
	if err != nil {
		closeAll(bound)
		g.closeHTTP()
		return nil, errors.Join(err, store.Close())
	}
	g.cleaner = cleaner.New(cleaner.Options{Store: store, Now: o.Now, Logger: o.Logger, Config: func() cleaner.Config { return cleanerConfig(config) }})
	g.transactions.run(g, map[string]func(context.Context) error{"transactions": g.txns.Run})
	rest := map[string]func(context.Context) error{
		"storage": store.Run, "groups": g.groups.Run, "shares": shares.Run, "cleaner": g.cleaner.Run, "wire": g.server.Run,
	}
	if c := g.newConsole(); c != nil {
		rest["http"] = c.Run
	}
	g.rest.run(g, rest)
	return g, nil
}

// loops are background loops that are ended together. The zero value has none.
type loops struct {
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// run starts loops by their names. One that ends by itself ends the gateway.
func (l *loops) run(g *Gateway, all map[string]func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for name, run := range all {
		l.wg.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				g.logger.Error("background loop ended", "loop", name, "error", err)
				g.fail(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
}

// end ends the loops and waits for them.
func (l *loops) end() {
	l.stop()
	l.wg.Wait()
}

// shareState lets the membership of share groups make and look at the states of their partitions.
func shareState(s *share.State) groups.ShareState {
	return groups.ShareState{
		Initialize: func(ctx context.Context, p groups.SharePartition, start int64) error {
			return s.Initialize(ctx, share.Key(p), start)
		},
		SetStart: func(ctx context.Context, p groups.SharePartition, start int64) error {
			return s.SetStart(ctx, share.Key(p), start)
		},
		Delete:  func(ctx context.Context, p groups.SharePartition) error { return s.Delete(ctx, share.Key(p)) },
		Summary: func(p groups.SharePartition) (int64, int32, bool) { return s.Summary(share.Key(p)) },
	}
}

// listen binds every listener, or none.
func (g *Gateway) listen(ctx context.Context, listeners []Listener) ([]wire.Listener, error) {
	var bound []wire.Listener
	for _, l := range listeners {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", l.Address)
		if err != nil {
			closeAll(bound)
			return nil, fmt.Errorf("listener %s: %w", l.Name, err)
		}
		host, port, err := l.bound(ln.Addr())
		bound = append(bound, wire.Listener{Name: l.Name, Listener: ln, AdvertisedHost: host, AdvertisedPort: port, SASL: l.sasl})
		if err != nil {
			closeAll(bound)
			return nil, err
		}
		g.addrs = append(g.addrs, ln.Addr())
	}
	return bound, nil
}

func closeAll(listeners []wire.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// Addrs returns the bound addresses in the order of the listeners.
func (g *Gateway) Addrs() []net.Addr { return g.addrs }

// Store returns the store, for embedding and tests. It is closed by Shutdown.
func (g *Gateway) Store() *storage.Store { return g.store }

// Done is closed when the gateway has ended: after Shutdown, or when a
// background loop failed, which Err then tells.
func (g *Gateway) Done() <-chan struct{} { return g.done }

// Err returns why the gateway ended by itself; nil before Done and after a
// Shutdown that went well.
func (g *Gateway) Err() error {
	select {
	case <-g.done:
		return g.err
	default:
		return nil
	}
}

// fail tells the owner, through Done and Err, that the gateway cannot go on.
func (g *Gateway) fail(err error) {
	g.ended.Do(func() {
		g.err = err
		close(g.done)
	})
}

// Shutdown stops accepting, answers what is under way (a parked fetch answers
// with what it has), and closes the store cleanly. ctx bounds the wait for
// connections; the store is closed in any case. It must be called once, also
// after a loop failed.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.stopping.Store(true)
	err := g.server.Shutdown(ctx)
	g.transactions.end()
	g.rest.end()
	err = errors.Join(err, g.store.Close())
	g.fail(err)
	return err
}

// ConfigError is a fault in Options: what was got and what was wanted.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns the faults.
func (e *ConfigError) Unwrap() error { return e.Err }

// storageOptions turns broker configs into storage's options.
func storageOptions(o *Options, config *wire.BrokerConfig) (storage.Options, error) {
	defaults, err := config.TopicDefaults()
	so := storage.Options{
		FS:                           o.FS,
		Now:                          o.Now,
		Logger:                       o.Logger,
		NodeID:                       new(int32(config.Int("node.id"))),
		TopicDefaults:                defaults,
		RecoveryThreads:              int(config.Int("num.recovery.threads.per.data.dir")),
		CheckpointInterval:           time.Duration(config.Int("log.flush.offset.checkpoint.interval.ms")) * time.Millisecond,
		ProducerIDExpiration:         time.Duration(config.Int("producer.id.expiration.ms")) * time.Millisecond,
		ProducerIDExpirationInterval: time.Duration(config.Int("producer.id.expiration.check.interval.ms")) * time.Millisecond,
		OpenFiles:                    int(config.Int("gateway.open.files")),
		SyncThreads:                  int(config.Int("gateway.sync.threads")),

		AnswerDuplicatesEarly: o.answerDuplicatesEarly,
	}
	switch d := config.String("gateway.durability"); d {
	case "sync":
		so.Durability = storage.Sync
	case "async":
		so.Durability = storage.Async
	default:
		err = errors.Join(err, fmt.Errorf("gateway.durability: got %q, want sync or async", d))
	}
	return so, err
}

// checkInternalSegments makes sure that the broker's own topics can be made: their segments may be no smaller than those
// of any topic, though Kafka's configs of them allow it.
func checkInternalSegments(config *wire.BrokerConfig) error {
	const least = 1 << 20
	var faults []error
	for _, name := range []string{"offsets.topic.segment.bytes", "transaction.state.log.segment.bytes", "share.coordinator.state.topic.segment.bytes"} {
		if got := config.Int(name); got < least {
			faults = append(faults, fmt.Errorf("%s: %d, want at least %d, the smallest segment.bytes of a topic", name, got, least))
		}
	}
	return errors.Join(faults...)
}

// cleanerConfig turns what broker configs say at the moment into the cleaner's config.
func cleanerConfig(config *wire.BrokerConfig) cleaner.Config {
	ms := func(name string) time.Duration {
		return time.Duration(min(config.Int(name), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	return cleaner.Config{
		CheckInterval: ms("log.retention.check.interval.ms"),
		InitialDelay:  ms("log.initial.task.delay.ms"),
		Threads:       int(config.Int("log.cleaner.threads")),
		Backoff:       ms("log.cleaner.backoff.ms"),
		DedupeBytes:   config.Int("log.cleaner.dedupe.buffer.size"),
		LoadFactor:    config.Float("log.cleaner.io.buffer.load.factor"),
		MaxIOBytes:    config.Float("log.cleaner.io.max.bytes.per.second"),
	}
}

// localName is what clients are told when a listener is bound to every
// interface and no address is advertised. Kafka does the same with the canonical
// host name.
func localName() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "localhost"
}
