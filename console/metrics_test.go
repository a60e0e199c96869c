package console

import (
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/kaen-log/gateway/cleaner"
	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/txn"
	"github.com/kaen-log/gateway/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files and the page docs/metrics.md")

// wantFile holds a file against what it should be; -rewrite writes it.
func wantFile(t *testing.T, file, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A checkout may have changed the line ends.
	if strings.ReplaceAll(string(got), "\r\n", "\n") != want {
		t.Errorf("%s is not what the program says:\n%s\nrun go test ./console -rewrite", file, want)
	}
}

// busy is a snapshot in which no two numbers are alike.
func busy() Snapshot {
	return Snapshot{
		Storage: storage.Stats{
			Topics: 4, Partitions: 40, Idle: 11, Recovering: 12, Online: 13, Offline: 14, Recovered: true, Bytes: 1500,
			OfflinePartitions: []storage.OfflineError{{Topic: "orders", Partition: 3, Cause: errors.New("damage")}},
			RetiredDirs:       16, MetadataBytes: 17,
		},
		Counts: storage.Counts{
			Appends: 20, AppendedBytes: 21, AppendedRecords: 22, FailedAppends: 23, Commits: 24, FailedCommits: 25, OpenFiles: 26, OpenFilesLimit: 27,
		},
		Cleaner: cleaner.Stats{
			SegmentsDeleted: 30, BytesDeleted: 31, RetentionErrors: 32, Passes: 33, BytesRead: 34, BytesKept: 35, RecordsRead: 36, RecordsKept: 37,
			LastPass: time.UnixMilli(1_700_000_000_500), GivenUp: 38, Errors: 39,
			SetAside: []cleaner.SetAside{{Topic: "payments", Partition: 7, Cause: errors.New("damage")}},
		},
		Groups: groups.Stats{Groups: []groups.GroupCount{{Kind: groups.KindClassic, State: "Empty", Count: 40}, {Kind: groups.KindShare, State: "Stable", Count: 41}}, Unready: 42},
		Txns:   txn.Stats{States: []txn.StateCount{{State: "Empty", Count: 43}, {State: "Ongoing", Count: 44}}, Retrying: 45, Markers: 46, Loading: 20, Failed: 27, Unreadable: 48},
		Wire: wire.Stats{
			Connections: 50, Accepted: 51, Refused: 52, Malformed: 54, Unsupported: 55, Throttled: 56, RequestBytes: 57, AnswerBytes: 58,
			MemoryWaits: 59, Authentications: 60, FailedAuthentications: 61, FetchSessions: 62, FetchSessionPartitions: 63, FetchSessionEvictions: 64,
		},
		APIs: []wire.APIStats{
			{Key: 0, Name: "Produce", Requests: 70, RequestBytes: 71, AnswerBytes: 72, RetriableErrors: 73, FinalErrors: 74},
			{Key: 1, Name: "Fetch", Requests: 80, RequestBytes: 81, AnswerBytes: 82, RetriableErrors: 83, FinalErrors: 84},
		},
		Errors:        []wire.ErrorStats{{Name: "MESSAGE_TOO_LARGE", Count: 90}},
		RequestMemory: 91, AnswerMemory: 92,
	}
}

// exposition is what a scrape of a snapshot gives, without what the Go runtime and the process say.
func exposition(t *testing.T, s Snapshot) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry() // checks what a collector says against what it describes
	if err := registry.Register(newCollector(func() Snapshot { return s })); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// TestMetricsHaveTheirNames is the golden file of names, types, help and labels: dashboards and alerts rely on them.
func TestMetricsHaveTheirNames(t *testing.T) {
	wantFile(t, filepath.Join("testdata", "metrics.txt"), exposition(t, busy()))
}

func TestMetricsFollowTheConventions(t *testing.T) {
	name := regexp.MustCompile(`^gateway_[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	for i := range metrics {
		m := &metrics[i]
		if !name.MatchString(m.name) || seen[m.name] {
			t.Errorf("%s is no name of ours, or is there twice", m.name)
		}
		seen[m.name] = true
		if strings.HasSuffix(m.name, "_total") != (m.kind == counter) {
			t.Errorf("%s: counters end in _total, and nothing else does", m.name)
		}
		if !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s: help %q, want a sentence", m.name, m.help)
		}
	}
	problems, err := promlint.New(strings.NewReader(exposition(t, busy()))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestPartitionsInTroubleAreNamedUpToABound(t *testing.T) {
	var s Snapshot
	for i := range int32(5 * mostNamed) {
		s.Cleaner.SetAside = append(s.Cleaner.SetAside, cleaner.SetAside{Topic: "orders", Partition: i})
		s.Storage.OfflinePartitions = append(s.Storage.OfflinePartitions, storage.OfflineError{Topic: "orders", Partition: i})
	}
	text := exposition(t, s)
	for _, name := range []string{"gateway_cleaner_partition_set_aside", "gateway_storage_partition_offline"} {
		if n := strings.Count(text, name+"{"); n != mostNamed {
			t.Errorf("%s has %d series, want %d", name, n, mostNamed)
		}
	}
	if want := fmt.Sprintf("gateway_cleaner_partitions_set_aside %d\n", 5*mostNamed); !strings.Contains(text, want) {
		t.Errorf("want %q in\n%s", want, text)
	}
	if text := exposition(t, Snapshot{}); strings.Contains(text, "{partition") || strings.Contains(text, "{topic") {
		t.Errorf("without trouble a partition is named:\n%s", text)
	}
}

// alerts are what the page docs/metrics.md would have somebody be told of.
var alerts = []struct{ expr, says string }{
	{`gateway_storage_partitions{status="offline"} > 0`, "a partition is damaged and is not served; `gateway_storage_partition_offline` names it."},
	{`gateway_cleaner_partitions_set_aside > 0`, "a partition is not cleaned before the next start, because that failed, and grows; `gateway_cleaner_partition_set_aside` names it."},
	{`increase(gateway_storage_sync_failures_total[5m]) > 0 or increase(gateway_storage_append_failures_total[5m]) > 0`, "the disk is full or fails, and clients were told that their records are not written."},
	{`min_over_time(gateway_transactions_retrying[10m]) > 0`, "transactions that are decided cannot be ended, and keep those who read committed records only waiting."},
}

// TestMetricsPage holds docs/metrics.md against the table.
func TestMetricsPage(t *testing.T) {
	var w strings.Builder
	w.WriteString("# Metrics\n\n" +
		"This page is made from the program's own table (`go test ./console -rewrite`). With\n" +
		"`-c gateway.http.listen=127.0.0.1:9464`, the same in a file (`--config`), or `KAFKA_GATEWAY_HTTP_LISTEN` in the\n" +
		"environment the gateway serves over HTTP:\n\n" +
		"- `/metrics`: what follows, in the text format of Prometheus, and the metrics of the Go runtime (`go_…`) and of the\n" +
		"  process (`process_…`) as Prometheus's own library has them;\n" +
		"- `/health`: 200 while the process is alive;\n" +
		"- `/ready`: 200 while clients are served, 503 once the gateway is stopping. Partitions may still recover then:\n" +
		"  `gateway_storage_recovered` says when they have.\n\n" +
		"Whoever reaches the address may read them: there is no authentication and no TLS. The log names the address\n" +
		"at the start, so that port 0 can be asked for. At most " + fmt.Sprint(mostConnections) + " connections are open at a time: for\n" +
		"a further one that is closed which has sent nothing for longest, and it waits only while all are being answered. A\n" +
		"request has to come within " + readTimeout.String() + ", its answer has to be taken within " + writeTimeout.String() + ".\n\n" +
		"A scrape costs nothing on the way of a request. No metric has a label for a client, and topics are named only where a\n" +
		"partition is in trouble. Counters start at 0 with the process.\n\n" +
		"Prometheus finds the gateway by\n\n" +
		"```yaml\nscrape_configs:\n  - job_name: gateway\n    static_configs:\n      - targets: [\"127.0.0.1:9464\"]\n```\n\n" +
		"What somebody should be told of:\n\n")
	for _, a := range alerts {
		fmt.Fprintf(&w, "- `%s`: %s\n", a.expr, a.says)
		for _, name := range regexp.MustCompile(`gateway_[a-z_]+`).FindAllString(a.expr, -1) {
			if !slices.ContainsFunc(metrics, func(m metric) bool { return m.name == name }) {
				t.Errorf("the page has somebody told of %s, which there is not", name)
			}
		}
	}
	w.WriteString("\n" +
		"| name | type | labels | |\n| --- | --- | --- | --- |\n")
	for i := range metrics {
		m, kind := &metrics[i], "gauge"
		if m.kind == counter {
			kind = "counter"
		}
		var labels []string
		for _, l := range m.labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", m.name, kind, strings.Join(labels, ", "), m.help)
	}
	wantFile(t, filepath.Join("..", "docs", "metrics.md"), w.String())
}
