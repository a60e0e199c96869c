package gateway

import (
	"net"
	"slices"
	"strings"
	"testing"
)

func TestListenersAreReadAsPeopleHaveThem(t *testing.T) {
	got, dropped, err := parseListeners(
		[]string{"PLAINTEXT://:9092", "internal://10.0.0.1:9094", "CONTROLLER://:9093"},
		[]string{"PLAINTEXT://broker.example:19092", "CONTROLLER://broker.example:9093"},
		[]string{"CONTROLLER"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Listener{
		{Name: "PLAINTEXT", Address: ":9092", Advertised: "broker.example:19092"},
		{Name: "INTERNAL", Address: "10.0.0.1:9094"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !slices.Equal(dropped, []string{"CONTROLLER://:9093"}) {
		t.Errorf("dropped %v, want the controller's", dropped)
	}
}

func TestListenerFaultsAreAllNamed(t *testing.T) {
	for _, c := range []struct {
		listeners, advertised []string
		want                  []string // each is in the error
	}{
		{[]string{"9092"}, nil, []string{`"9092"`, "NAME://HOST:PORT"}},
		{[]string{"A://h:70000", "B://h"}, nil, []string{`"70000"`, `"h"`}},
		{[]string{"A://:1", "A://:2"}, nil, []string{"A is given twice"}},
		{[]string{"A://:1"}, []string{"B://h:1"}, []string{"B://h:1 has no listener"}},
		{[]string{"A://:1"}, []string{"A://0.0.0.0:1"}, []string{`host "0.0.0.0"`}},
		{[]string{"C://:1"}, nil, []string{"none left"}},
	} {
		_, _, err := parseListeners(c.listeners, c.advertised, []string{"C"})
		if err == nil {
			t.Errorf("%v %v: no error", c.listeners, c.advertised)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v %v: got %q, want %q in it", c.listeners, c.advertised, err, want)
			}
		}
	}
}

func TestAdvertisedAddressDefaultsToTheBoundOne(t *testing.T) {
	bound := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
	for _, c := range []struct {
		advertised, host string
		port             int32
	}{{"", "127.0.0.1", 4711}, {"broker:19092", "broker", 19092}, {"broker:0", "broker", 4711}} {
		host, port, err := Listener{Name: "P", Advertised: c.advertised}.bound(bound)
		if err != nil || host != c.host || port != c.port {
			t.Errorf("advertised %q: got %s %d %v, want %s %d", c.advertised, host, port, err, c.host, c.port)
		}
	}
	host, _, err := Listener{Name: "P"}.bound(&net.TCPAddr{IP: net.IPv4zero, Port: 1})
	if err != nil || host == "" || host == "0.0.0.0" {
		t.Errorf("bound to all interfaces: got host %q %v, want a name clients can use", host, err)
	}
}
