package compat_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// httpAddr is where the server says that it serves metrics.
func (s *server) httpAddr(t testing.TB) string {
	t.Helper()
	for line := range strings.Lines(s.out.all()) {
		var said struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &said) == nil && strings.Contains(said.Msg, "over HTTP") {
			return said.Address
		}
	}
	t.Fatalf("no line says where metrics are served:\n%s", s.out.tail(20))
	return ""
}

// get asks the server over HTTP.
func (s *server) get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), "GET", "http://"+s.httpAddr(t)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestMetricsTellWhatClientsDid(t *testing.T) {
	s := newServer(t, "-c", "gateway.http.listen=127.0.0.1:0")
	if s.External() {
		t.Skip("another broker has other metrics")
	}
	tp := s.createTopic(t, "metrics", 1)
	cl := s.client(t, kgo.DefaultProduceTopic(tp.Name))
	for range 3 {
		if err := cl.ProduceSync(within(t), kgo.StringRecord("hello, log")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"/health": "alive\n", "/ready": "ready\n"} {
		if status, body := s.get(t, path); status != 200 || body != want {
			t.Errorf("%s: got %d %q, want 200 %q", path, status, body, want)
		}
	}
	_, text := s.get(t, "/metrics")
	for _, want := range []string{
		"gateway_connections ", `gateway_requests_total{api="Produce"} 3` + "\n", `gateway_request_errors_total{api="Produce",class="final"} 0` + "\n",
		"gateway_storage_topics 1\n", `gateway_storage_partitions{status="online"} 1` + "\n",
		"gateway_cleaner_partitions_set_aside 0\n", "gateway_group_partitions_unready 0\n", "process_open_fds ", "go_goroutines ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no line begins with %q in\n%s", want, text)
		}
	}
	for _, not := range []string{"gateway_cleaner_partition_set_aside{", "gateway_storage_partition_offline{", tp.Name} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in the metrics, want partitions named only in trouble", not)
		}
	}
	s.Stop(t)
}
