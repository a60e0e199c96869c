//go:build !linux

package wire

import "net"

// arrived is not known here.
func arrived(net.Conn) (bytes int64, pending, known bool) { return 0, false, false }
