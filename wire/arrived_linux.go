package wire

import (
	"net"

	"golang.org/x/sys/unix"
)

// arrived returns how many bytes the system at the other end of a connection has acknowledged since the connection began,
// and whether there are more that it has not. It is not known of what is no TCP connection.
func arrived(socket net.Conn) (bytes int64, pending, known bool) {
	if t, ok := socket.(interface{ NetConn() net.Conn }); ok { // a *tls.Conn
		socket = t.NetConn()
	}
	tcp, ok := socket.(*net.TCPConn)
	if !ok {
		return 0, false, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, false, false
	}
	if err := raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			// A system that does not count, as one in a sandbox may not, knows of no byte, not even of the handshake's.
			bytes, pending, known = int64(info.Bytes_acked), info.Notsent_bytes > 0 || info.Unacked > 0, info.Bytes_acked > 0
		}
	}); err != nil {
		return 0, false, false
	}
	return bytes, pending, known
}
