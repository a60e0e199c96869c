package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kaen-log/gateway"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	listen         string
	advertise      string
	dataDir        string
	memory         bool
	memoryCapacity int64
	config         string
	pairs          []string
	readyFile      string
	logLevel       string
}

func newServeCommand() *cobra.Command { return newServeCommandWith(&serveFlags{}) }

// newServeCommandWith is newServeCommand with its flags in f.
func newServeCommandWith(f *serveFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve Kafka clients",
		Long: "Serve Kafka clients from a data directory.\n\n" +
			"Settings are broker configs by Kafka's names. A flag wins over the environment\n" +
			"(KAFKA_LOG_RETENTION_MS=…), that over the file (--config), that over the default.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:9092", "HOST:PORT to serve on; port 0 takes a free one")
	flags.StringVar(&f.advertise, "advertise", "", "HOST:PORT that clients are told to connect to (default: the bound address)")
	flags.StringVar(&f.dataDir, "data-dir", "./gateway-data", "data directory, made when missing")
	flags.BoolVar(&f.memory, "memory", false, "keep everything in memory; nothing outlives the process")
	flags.Int64Var(&f.memoryCapacity, "memory-capacity", 1<<30, "bytes that --memory may keep")
	flags.StringVar(&f.config, "config", "", "a server.properties file")
	flags.StringArrayVarP(&f.pairs, "set", "c", nil, "one broker config as key=value; may be repeated")
	flags.StringVar(&f.readyFile, "ready-file", "", "write the ready line as JSON to this file once serving")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// shutdownTimeout bounds how long a stop waits for connections.
const shutdownTimeout = 10 * time.Second

func serve(cmd *cobra.Command, f *serveFlags) error {
	began := time.Now()
	logger, level, err := newLogger(f.logLevel)
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	o, warnings, err := serveOptions(cmd, f, os.Environ())
	if err != nil {
		return &exitError{Code: exitUsage, Err: err}
	}
	for _, w := range warnings {
		logger.Warn(w)
	}
	o.Logger, o.LogLevel = logger, level
	if f.readyFile != "" {
		// One of an earlier run would say that this one is ready.
		if err := os.Remove(f.readyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &exitError{Code: exitFailed, Err: fmt.Errorf("ready file: %w", err)}
		}
		if _, err := os.Stat(filepath.Dir(f.readyFile)); err != nil {
			return &exitError{Code: exitUsage, Err: fmt.Errorf("--ready-file: %w", err)}
		}
	}
	g, err := gateway.Start(cmd.Context(), o)
	if err != nil {
		return &exitError{Code: startExitCode(err), Err: err}
	}
	ready := newReady(g, &o, time.Since(began))
	if f.readyFile != "" {
		if err := ready.write(f.readyFile); err != nil {
			return &exitError{Code: exitFailed, Err: errors.Join(err, shutdown(g))}
		}
	}
	fmt.Fprintln(cmd.ErrOrStderr(), ready.line()) // after the file, so that whoever reads the line finds it
	select {
	case <-cmd.Context().Done():
		logger.Info("stopping")
	case <-g.Done():
	}
	cause := g.Err()
	if err := errors.Join(cause, shutdown(g)); err != nil {
		return &exitError{Code: exitFailed, Err: err}
	}
	return nil
}

func shutdown(g *gateway.Gateway) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	return g.Shutdown(ctx)
}

// serveOptions puts the layers of settings together.
func serveOptions(cmd *cobra.Command, f *serveFlags, environ []string) (gateway.Options, []string, error) {
	if f.memory && cmd.Flags().Changed("data-dir") {
		return gateway.Options{}, nil, errors.New("--memory and --data-dir exclude each other: data is kept in memory or in a directory")
	}
	if f.memoryCapacity < 1 {
		return gateway.Options{}, nil, fmt.Errorf("--memory-capacity: got %d, want at least 1 byte", f.memoryCapacity)
	}
	if f.dataDir == "" {
		return gateway.Options{}, nil, errors.New("--data-dir: got nothing, want a directory")
	}
	s := settings{values: map[string]string{}}
	if f.config == "" {
		s.values["group.initial.rebalance.delay.ms"] = "0"
	} else if err := s.addFile(f.config); err != nil {
		return gateway.Options{}, nil, err
	}
	if err := errors.Join(s.addEnviron(environ), s.addPairs(f.pairs)); err != nil {
		return gateway.Options{}, nil, err
	}
	if _, set := s.values["listeners"]; !set {
		s.values["listeners"] = "PLAINTEXT://" + f.listen
	} else if cmd.Flags().Changed("listen") {
		// What was to be advertised belongs to the listeners that the flag replaces.
		s.values["listeners"] = "PLAINTEXT://" + f.listen
		delete(s.values, "advertised.listeners")
	}
	if f.advertise != "" {
		s.values["advertised.listeners"] = "PLAINTEXT://" + f.advertise
	}
	dir := f.dataDir
	if !cmd.Flags().Changed("data-dir") {
		if d := strings.TrimSpace(firstOf(s.values["log.dirs"], s.values["log.dir"])); d != "" {
			if strings.Contains(d, ",") {
				return gateway.Options{}, nil, fmt.Errorf("log.dirs: got %q, want one directory", d)
			}
			dir = d
		}
	}
	s.values["log.dirs"] = dir
	return gateway.Options{Dir: dir, Memory: f.memory, MemoryCapacity: f.memoryCapacity, Config: s.values}, s.warnings, nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// startExitCode tells a fault of the data directory from one of usage.
func startExitCode(err error) int {
	var config *gateway.ConfigError
	var corrupt *storage.CorruptError
	var format *storage.FormatError
	switch {
	case errors.As(err, &config):
		return exitUsage
	case errors.Is(err, vfs.ErrLocked), errors.As(err, &corrupt), errors.As(err, &format):
		return exitData
	}
	return exitFailed
}

// ready is what the ready line and the ready file say.
type ready struct {
	Listeners []string `json:"listeners"`
	Data      string   `json:"data"`
	InMs      int64    `json:"in_ms"`
	PID       int      `json:"pid"`
}

func newReady(g *gateway.Gateway, o *gateway.Options, took time.Duration) ready {
	r := ready{Data: o.Dir, InMs: took.Milliseconds(), PID: os.Getpid()}
	if o.Memory {
		r.Data = "memory"
	}
	for _, a := range g.Addrs() {
		r.Listeners = append(r.Listeners, a.String())
	}
	return r
}

// line is the one line on standard error that others may parse.
func (r ready) line() string {
	return fmt.Sprintf("ready listeners=%s data=%s in=%dms", strings.Join(r.Listeners, ","), r.Data, r.InMs)
}

// write puts the ready file in place atomically.
func (r ready) write(path string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	_, err = temp.Write(append(b, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("ready file: %w", err), os.Remove(temp.Name()))
	}
	return nil
}

// newLogger logs to standard error: text on a terminal, JSON otherwise.
func newLogger(level string) (*slog.Logger, *slog.LevelVar, error) {
	l := new(slog.LevelVar) // clients may change it: logger root of the broker
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, nil, fmt.Errorf("--log-level: got %q, want debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		return slog.New(slog.NewTextHandler(os.Stderr, o)), l, nil
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, o)), l, nil
}
