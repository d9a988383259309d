package testenv

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports of servers that tests start lie below those that Linux gives to
// outgoing connections and to listeners that name no port. So nobody else takes
// the port of a server that is down for a while.
const firstPort, lastPort = 20000, 32767

// FreePort returns a TCP port of the loopback that nothing listens on. It is
// reserved until the end of the test, among the tests of all processes: the UDP
// port of the same number is the mark.
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
