package wire

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestApiVersionsNamesWhatIsServed(t *testing.T) { // VER-04, VER-07
	b := newBroker(t, nil)
	for version := range int16(6) {
		req := versions()
		req.Version = version
		resp := ask[*kmsg.ApiVersionsResponse](b, req)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(apis.rows) {
			t.Errorf("version %d: code %d and %d keys, want 0 and %d", version, resp.ErrorCode, len(resp.ApiKeys), len(apis.rows))
		}
		for _, k := range resp.ApiKeys {
			a := apis.find(k.ApiKey)
			lowest := a.min
			if k.ApiKey == produceKey {
				lowest = 0
			}
			if k.MinVersion != lowest || k.MaxVersion != a.max {
				t.Errorf("version %d: key %d is named with %d to %d, want %d to %d", version, k.ApiKey, k.MinVersion, k.MaxVersion, lowest, a.max)
			}
		}
		if version < 3 {
			continue
		}
		levels, finalized := map[string]int16{}, map[string]int16{}
		for _, f := range resp.SupportedFeatures {
			if version < 4 && f.MinVersion == 0 {
				t.Errorf("version %d: feature %s with a lowest level of 0", version, f.Name)
			}
			levels[f.Name] = f.MaxVersion
		}
		for _, f := range resp.FinalizedFeatures {
			if f.MaxVersionLevel != f.MinVersionLevel || version >= 4 && f.MaxVersionLevel > levels[f.Name] {
				t.Errorf("version %d: feature %+v is finalized, of at most %d", version, f, levels[f.Name])
			}
			finalized[f.Name] = f.MaxVersionLevel
		}
		want := map[string]int16{"metadata.version": 33, "group.version": 1, "share.version": 1, "transaction.version": 2}
		if !maps.Equal(finalized, want) || version >= 4 && !maps.Equal(levels, want) {
			t.Errorf("version %d: features %v, finalized at %v; want %v", version, levels, finalized, want)
		}
		if resp.FinalizedFeaturesEpoch < 0 || resp.ZkMigrationReady {
			t.Errorf("version %d: epoch %d and ZK migration %v, want at least 0 and false", version, resp.FinalizedFeaturesEpoch, resp.ZkMigrationReady)
		}
	}
}

func TestApiVersionsChecksTheSoftware(t *testing.T) { // VER-03
	b := newBroker(t, nil)
	tests := []struct {
		name, version string
		want          int16
	}{
		{"apache-kafka-java", "4.4.0", 0},
		{"a", "1", 0},
		{"a.-b", "1.0-rc.1", 0},
		{"bad name!", "1", 42},
		{"", "1", 42},
		{"a", "", 42},
		{"-a", "1", 42},
		{"a.", "1", 42},
		{"a", "1-", 42},
		{"ä", "1", 42},
	}
	for _, version := range []int16{3, 5} {
		for _, test := range tests {
			req := versions()
			req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, test.name, test.version
			resp := ask[*kmsg.ApiVersionsResponse](b, req)
			if resp.ErrorCode != test.want || (test.want != 0) != (len(resp.ApiKeys) == 0) {
				t.Errorf("version %d, software %q %q: code %d and %d keys, want %d", version, test.name, test.version, resp.ErrorCode, len(resp.ApiKeys), test.want)
			}
		}
	}
}

func TestApiVersionsChecksClusterAndNode(t *testing.T) {
	b := newBroker(t, nil)
	cluster, other := b.store.ClusterID(), "another"
	tests := []struct {
		cluster *string
		node    int32
		want    int16
	}{
		{nil, -1, 0},
		{&cluster, b.store.NodeID(), 0},
		{&cluster, 7, 129},
		{&other, b.store.NodeID(), 129},
		{&cluster, -1, 42},
		{nil, b.store.NodeID(), 42},
	}
	for _, test := range tests {
		req := versions()
		req.Version, req.ClusterID, req.NodeID = 5, test.cluster, test.node
		if resp := ask[*kmsg.ApiVersionsResponse](b, req); resp.ErrorCode != test.want {
			t.Errorf("cluster %q, node %d: code %d, want %d", deref(test.cluster), test.node, resp.ErrorCode, test.want)
		}
	}
}
