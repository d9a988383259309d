package stores_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"stepboard/internal/testenv"
)

// Both ends of a connection to Postgres notice within half a minute that the other
// machine has failed.
func TestKeepalives(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	conn, err := env.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	want := map[string]string{"tcp_keepalives_idle": "15", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "30000"}
	got := make(map[string]string)
	for name := range want {
		var value string
		if err := conn.QueryRow(t.Context(), `SELECT current_setting($1)`, pgx.QueryExecModeExec, name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		got[name] = value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the server's end (-want +got):\n%s", diff)
	}
	socket, ok := conn.Conn().PgConn().Conn().(*net.TCPConn)
	if !ok {
		t.Fatalf("%T is no plain connection", conn.Conn().PgConn().Conn())
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[int]int{syscall.TCP_KEEPIDLE: 15, syscall.TCP_KEEPINTVL: 5, syscall.TCP_KEEPCNT: 3} {
		var got int
		var failed error
		if err := raw.Control(func(fd uintptr) { got, failed = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option) }); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if got != want {
			t.Errorf("our end: option %d is %d, want %d", option, got, want)
		}
	}
}
