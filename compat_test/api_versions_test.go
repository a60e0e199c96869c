package compat_test

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func apiVersions(name, version string) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
	return req
}

func TestApiVersions(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	t.Run("VER-01 too new a version is answered in v0", func(t *testing.T) {
		for _, body := range [][]byte{nil, {0}, []byte("\x05none of this is parsed")} {
			c := s.dial(t)
			c.write(framed(append(header(18, 9, 77, ptr("compat"), []byte{0}), body...)))
			b, err := c.frame()
			if err != nil {
				t.Fatalf("body % x: %v", body, err)
			}
			req := kmsg.NewPtrApiVersionsRequest()
			res := decode[*kmsg.ApiVersionsResponse](t, b, 77, req) // v0: no throttle time, no tags
			wantCode(t, "v9", res.ErrorCode, unsupportedVersion)
			if k := res.ApiKeys; len(k) != 1 || k[0].ApiKey != 18 || k[0].MinVersion != 0 || k[0].MaxVersion != 5 {
				t.Fatalf("got keys %+v, want only 18, 0 to 5", res.ApiKeys)
			}
			c.next = 78
			again := ask[*kmsg.ApiVersionsResponse](c, 3, apiVersions("compat", "1"))
			wantCode(t, "v3 on the same connection", again.ErrorCode, noError)
		}
	})

	at(t, "VER-03 client software name and version are validated", versions(3, 4), func(t *testing.T, v int16) {
		c := s.dial(t)
		for _, bad := range []string{"bad name!", "", "-a", "a.", "a_b", "ä", "a\n"} {
			res := ask[*kmsg.ApiVersionsResponse](c, v, apiVersions(bad, "1.0"))
			wantCode(t, "name "+bad, res.ErrorCode, invalidRequest)
			want(t, "keys for a bad name", len(res.ApiKeys), 0)
			res = ask[*kmsg.ApiVersionsResponse](c, v, apiVersions("ok", bad))
			wantCode(t, "version "+bad, res.ErrorCode, invalidRequest)
		}
		for _, good := range []string{"a", "apache-kafka-java", "4.4.0", "a-.-b", "0"} {
			res := ask[*kmsg.ApiVersionsResponse](c, v, apiVersions(good, good))
			wantCode(t, "name "+good, res.ErrorCode, noError)
		}
	})

	at(t, "VER-04 Produce is advertised from v0", versions(0, 3, 4), func(t *testing.T, v int16) {
		c := s.dial(t)
		res := ask[*kmsg.ApiVersionsResponse](c, v, apiVersions("compat", "1"))
		wantCode(t, "ApiVersions", res.ErrorCode, noError)
		var found bool
		for i, k := range res.ApiKeys {
			if i > 0 && res.ApiKeys[i-1].ApiKey >= k.ApiKey {
				t.Errorf("key %d after %d", k.ApiKey, res.ApiKeys[i-1].ApiKey)
			}
			if k.ApiKey == 0 {
				found = true
				want(t, "lowest Produce", k.MinVersion, 0)
				want(t, "highest Produce", k.MaxVersion, 13)
			}
		}
		want(t, "Produce is listed", found, true)
		tp := s.createTopic(t, "ver-04", 1)
		for old := int16(0); old < 3; old++ {
			c := s.dial(t)
			c.send(old, produceRequest(1, part{tp, 0, one("old").bytes(t)}))
			c.wantClosed("Produce v0 to v2")
		}
		c = s.dial(t)
		b := one("a", "b")
		b.Codec = kgo.CodecSnappy
		mustProduce(c, tp, 0, b)
		want(t, "codec of the stored batch", fetch(c, 4, tp, 0, 0)[0].Attributes&7, 2)
	})

	t.Run("VER-06 unknown api key closes only that connection", func(t *testing.T) {
		tp := s.createTopic(t, "ver-06", 1)
		b := s.dial(t)
		for _, key := range []int16{999, 4, 5, 6, 7, -1, 52} {
			a := s.dial(t)
			a.write(framed(header(key, 0, 1, ptr("compat"), nil)))
			a.wantClosed("unknown key")
			offset := mustProduce(b, tp, 0, one("still here"))
			if got := values(b, tp, 0, offset); len(got) != 1 {
				t.Fatalf("after key %d another connection reads %q", key, got)
			}
		}
		a := s.dial(t)
		a.send(99, metadataRequest())
		a.wantClosed("Metadata v99")
	})

	t.Run("VER-07 features with minimum 0 are hidden below v4", func(t *testing.T) {
		c := s.dial(t)
		v3 := ask[*kmsg.ApiVersionsResponse](c, 3, apiVersions("compat", "1"))
		for _, f := range v3.SupportedFeatures {
			if f.MinVersion == 0 {
				t.Errorf("v3 lists %+v", f)
			}
		}
		v4 := ask[*kmsg.ApiVersionsResponse](c, 4, apiVersions("compat", "1"))
		supported := map[string]kmsg.ApiVersionsResponseSupportedFeature{}
		for _, f := range v4.SupportedFeatures {
			supported[f.Name] = f
		}
		for _, f := range v4.FinalizedFeatures {
			s, ok := supported[f.Name]
			if !ok && f.MinVersionLevel == 0 || f.MinVersionLevel != f.MaxVersionLevel || ok && (f.MaxVersionLevel < s.MinVersion || f.MaxVersionLevel > s.MaxVersion) {
				t.Errorf("finalized %+v with supported %+v", f, s)
			}
		}
		if v4.FinalizedFeaturesEpoch < 0 && len(v4.FinalizedFeatures) > 0 {
			t.Errorf("finalized features at epoch %d", v4.FinalizedFeaturesEpoch)
		}
		if v4.ZkMigrationReady {
			t.Error("zk_migration_ready is set")
		}
	})

	t.Run("a request that does not decode closes the connection", func(t *testing.T) {
		for _, body := range [][]byte{{0x7f, 0xff, 0xff, 0xff}, {0, 0, 0, 1, 0, 9, 'x'}} {
			c := s.dial(t)
			c.write(framed(append(header(3, 1, 1, ptr("compat"), nil), body...)))
			c.wantClosed("Metadata with a cut body")
		}
		c := s.dial(t)
		c.write(framed(binary.BigEndian.AppendUint16(nil, 3)))
		c.wantClosed("a header of two bytes")
	})
}
