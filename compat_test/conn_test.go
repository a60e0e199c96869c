package compat_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is one raw connection. Every read and write fails the test after waitLimit.
type conn struct {
	t    testing.TB
	c    net.Conn
	r    *bufio.Reader
	next int32 // correlation id of the next request
}

// dial connects to the server; the connection is closed with the test.
func (s *server) dial(t testing.TB) *conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", s.Addr, waitLimit)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return &conn{t: t, c: c, r: bufio.NewReader(c), next: 1}
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("compat"))

// ask sends a request at a version and returns the answer.
func ask[R kmsg.Response](c *conn, version int16, req kmsg.Request) R {
	c.t.Helper()
	id := c.send(version, req)
	return receive[R](c, id, req)
}

// send writes a request at a version and returns its correlation id.
func (c *conn) send(version int16, req kmsg.Request) int32 {
	c.t.Helper()
	req.SetVersion(version)
	id := c.next
	c.next++
	c.write(formatter.AppendRequest(nil, req, id))
	return id
}

// receive reads the next frame, which must answer the given request.
func receive[R kmsg.Response](c *conn, id int32, req kmsg.Request) R {
	c.t.Helper()
	body, err := c.frame()
	if err != nil {
		c.t.Fatalf("read the answer to %s v%d: %v", kmsg.Key(req.Key()).Name(), req.GetVersion(), err)
	}
	return decode[R](c.t, body, id, req)
}

// decode reads a response of the request's kind and version and compares the
// correlation id. Bytes left over are an error.
func decode[R kmsg.Response](t testing.TB, body []byte, id int32, req kmsg.Request) R {
	t.Helper()
	name := fmt.Sprintf("%s v%d", kmsg.Key(req.Key()).Name(), req.GetVersion())
	if len(body) < 4 {
		t.Fatalf("%s: answer of %d bytes", name, len(body))
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != id {
		t.Fatalf("%s: got correlation id %d, want %d", name, got, id)
	}
	body = body[4:]
	res := req.ResponseKind()
	if res.IsFlexible() && res.Key() != 18 { // ApiVersions answers with header v0 at every version
		if len(body) == 0 || body[0] != 0 {
			t.Fatalf("%s: the response header has tags: % x", name, body[:min(len(body), 16)])
		}
		body = body[1:]
	}
	if err := res.ReadFrom(body); err != nil {
		t.Fatalf("%s: decode %d bytes: %v", name, len(body), err)
	}
	if again := res.AppendTo(nil); len(again) != len(body) {
		t.Fatalf("%s: got %d bytes of body, the decoded answer has %d", name, len(body), len(again))
	}
	r, ok := res.(R)
	if !ok {
		t.Fatalf("%s: answer is a %T, want %s", name, res, reflect.TypeFor[R]())
	}
	return r
}

// write writes bytes as they are.
func (c *conn) write(b []byte) {
	c.t.Helper()
	c.c.SetWriteDeadline(time.Now().Add(waitLimit))
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatalf("write %d bytes: %v", len(b), err)
	}
}

// frame reads one frame without its length.
func (c *conn) frame() ([]byte, error) {
	c.c.SetReadDeadline(time.Now().Add(waitLimit))
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 0 || n > 200<<20 {
		return nil, fmt.Errorf("frame length %d", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.r, b)
	return b, err
}

// wantClosed reads until the broker closes the connection, and fails when it
// sends a byte or keeps it open.
func (c *conn) wantClosed(why string) {
	c.t.Helper()
	c.c.SetReadDeadline(time.Now().Add(waitLimit))
	n, err := c.r.Read(make([]byte, 1))
	if n != 0 {
		c.t.Fatalf("%s: got an answer, want the connection closed", why)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("%s: got %v, want the connection closed", why, err)
	}
}

// framed puts the length in front.
func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// header is a request header: v1, or v2 with the raw tag section.
func header(key, version int16, id int32, clientID *string, tags []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	if clientID == nil {
		b = append(b, 0xff, 0xff)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(*clientID)))
		b = append(b, *clientID...)
	}
	return append(b, tags...)
}

// at runs f as one subtest for each version, under the case's name.
func at(t *testing.T, name string, versions []int16, f func(t *testing.T, v int16)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for _, v := range versions {
			t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) { f(t, v) })
		}
	})
}

// versions is a list of versions, lowest and highest usually.
func versions(v ...int16) []int16 { return v }
