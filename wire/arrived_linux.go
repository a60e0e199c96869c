package wire

import (
	"net"

	"golang.org/x/sys/unix"
)

// arrivedAt tells what has arrived at the other end of a connection. It is not known of what is no TCP connection.
func arrivedAt(socket net.Conn) (a arrival) {
	if t, ok := socket.(interface{ NetConn() net.Conn }); ok { // a *tls.Conn
		socket = t.NetConn()
	}
	tcp, ok := socket.(*net.TCPConn)
	if !ok {
		return arrival{}
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return arrival{}
	}
	if err := raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		// A system that does not count, as one in a sandbox may not, knows of no byte, not even of the handshake's.
		if err != nil || info.Bytes_acked == 0 {
			return
		}
		a = arrival{
			known: true, bytes: int64(info.Bytes_acked), pending: info.Notsent_bytes > 0 || info.Unacked > 0,
			full: info.Notsent_bytes > 0 && info.Unacked == 0,
		}
	}); err != nil {
		return arrival{}
	}
	return a
}
