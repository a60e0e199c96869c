package compare

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fakeBroker answers ApiVersions with an error, Metadata with the brokers that it is told, SaslHandshake, and a frame
// that is none of these with its own bytes, as a token.
func fakeBroker(t *testing.T, brokers func() []string) string {
	t.Helper()
	return Accept(t, func(c net.Conn) {
		defer c.Close()
		for {
			frame, err := readFrame(c)
			if err != nil {
				return
			}
			if err := writeFrame(c, fakeAnswer(t, frame, brokers())); err != nil {
				return
			}
		}
	})
}

func fakeAnswer(t *testing.T, frame []byte, brokers []string) []byte {
	m, err := parseRequest(frame, true)
	if err != nil {
		return frame
	}
	values := map[string]any{}
	switch m.api.Name {
	case "Metadata":
		var list []any
		for i, addr := range brokers {
			host, port, _ := net.SplitHostPort(addr)
			list = append(list, map[string]any{"nodeId": i, "host": host, "port": port})
		}
		values["brokers"] = list
	case "ApiVersions":
		values["apiKeys"] = []any{map[string]any{"apiKey": 3, "minVersion": 0, "maxVersion": 99}}
	}
	return answerFrame(t, m.api.Name, m.call.version, m.correlation, values)
}

// startProxy runs a proxy and returns its address, and a function that interrupts it and returns the session's events
// and bytes.
func startProxy(t *testing.T, upstream string) (addr string, interrupt func() ([]*Event, []byte)) {
	t.Helper()
	var session bytes.Buffer
	p, err := ListenProxy(t.Context(), "127.0.0.1:0", upstream, &session, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return p.Addr(), func() ([]*Event, []byte) {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		events, err := readEvents(session.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		return events, session.Bytes()
	}
}

// TestEveryBrokerOfAClusterGetsAPortOfItsOwn follows the addresses that a proxy gives to a cluster of two.
func TestEveryBrokerOfAClusterGetsAPortOfItsOwn(t *testing.T) {
	second := fakeBroker(t, func() []string { return nil })
	var first string
	first = fakeBroker(t, func() []string { return []string{first, second} })
	proxy, interrupt := startProxy(t, first)
	c, err := dial(t.Context(), proxy)
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := APINamed("Metadata")
	root, err := c.call(t.Context(), metadata, 9, map[string]any{"topics": nil})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range root.Child("brokers").Children {
		host, _ := b.Child("host").Value.(string)
		got = append(got, net.JoinHostPort(host, strconv.FormatInt(b.int("port"), 10)))
	}
	if len(got) != 2 || got[0] != proxy || slices.Contains([]string{proxy, first, second}, got[1]) {
		t.Fatalf("got brokers %v of a proxy at %s for %s and %s; want it and another port", got, proxy, first, second)
	}
	other, err := dial(t.Context(), got[1])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.call(t.Context(), metadata, 9, map[string]any{"topics": nil}); err != nil {
		t.Fatal(err)
	}
	events, _ := interrupt()
	var opened []string
	ended := 0
	for _, e := range events {
		switch {
		case e.Kind == Opened:
			opened = append(opened, e.Broker)
		case e.Kind == Closed && e.By == ByProxy:
			ended++
		}
	}
	if !slices.Equal(opened, []string{first, second}) || ended != 2 {
		t.Errorf("got connections to %v of which the proxy ended %d, want %v and 2", opened, ended, []string{first, second})
	}
}

// TestSecretsPassTheProxyAndAreNotWritten authenticates in both ways, and looks for the secret in the file.
func TestSecretsPassTheProxyAndAreNotWritten(t *testing.T) {
	upstream := fakeBroker(t, func() []string { return nil })
	proxy, interrupt := startProxy(t, upstream)
	token := []byte("\x00user\x00" + secret)
	for _, frames := range [][][]byte{
		{requestFrame(t, "SaslHandshake", 0, 1, map[string]any{"mechanism": "PLAIN"}), token, requestFrame(t, "Metadata", 9, 2, nil)},
		{requestFrame(t, "SaslHandshake", 1, 1, map[string]any{"mechanism": "PLAIN"}), requestFrame(t, "SaslAuthenticate", 2, 2, map[string]any{"authBytes": token})},
	} {
		c, err := net.Dial("tcp", proxy)
		if err != nil {
			t.Fatal(err)
		}
		for i, frame := range frames {
			if err := writeFrame(c, frame); err != nil {
				t.Fatal(err)
			}
			got, err := readFrame(c)
			if want := fakeAnswer(t, frame, nil); err != nil || !bytes.Equal(got, want) {
				t.Errorf("frame %d: got %x, error %v; want %x", i, got, err, want)
			}
		}
		_ = c.Close()
	}
	events, session := interrupt()
	if bytes.Contains(session, []byte(secret)) {
		t.Errorf("the session holds %q", secret)
	}
	flags := map[EventFlags]int{}
	for _, e := range events {
		flags[e.Flags]++
	}
	if flags[Withheld] != 2 || flags[Redacted] < 1 {
		t.Errorf("got %d frames withheld and %d redacted, want 2 and at least 1", flags[Withheld], flags[Redacted])
	}
}

// TestProxyEndsWhenNobodyCanConnect closes the listener below it.
func TestProxyEndsWhenNobodyCanConnect(t *testing.T) {
	p, err := ListenProxy(t.Context(), "127.0.0.1:0", fakeBroker(t, func() []string { return nil }), new(bytes.Buffer), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "accept on "+p.Addr()) {
		t.Errorf("got error %v, want that of accept", err)
	}
}
