package testenv

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// firstPort and lastPort bound the ports of servers that tests start. They lie
// below the range from which Linux picks ports for outgoing connections and for
// listeners on port 0, so nobody else takes the port of a server that is down
// for a while.
const firstPort, lastPort = 20000, 32767

// FreePort returns a TCP port of the loopback interface that nothing listens
// on. The port is reserved until the end of the test, also against tests of
// other processes: whoever holds the UDP port of the same number has reserved
// it.
func FreePort(t testing.TB) int {
	t.Helper()
	var config net.ListenConfig
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		mark, err := config.ListenPacket(context.Background(), "udp", addr)
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := mark.Close(); err != nil {
				t.Error(err)
			}
		})
		if l, err := config.Listen(context.Background(), "tcp", addr); err == nil && l.Close() == nil {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
