package testenv

import (
	"testing"

	"gorm.io/gorm"
)

// Blocked returns how many sessions of Postgres wait for a transaction to end: those that wait for
// one of its locks, and those that wait for them.
func Blocked(t testing.TB, env *Env, tx *gorm.DB) (n int) {
	t.Helper()
	var holder int
	if err := tx.Raw(`SELECT pg_backend_pid()`).Scan(&holder).Error; err != nil {
		t.Fatal(err)
	}
	err := env.Gorm.Raw(`
		WITH RECURSIVE waiting (pid) AS (
			SELECT a.pid FROM pg_stat_activity a WHERE ? = ANY(pg_blocking_pids(a.pid))
			UNION SELECT a.pid FROM pg_stat_activity a JOIN waiting w ON w.pid = ANY(pg_blocking_pids(a.pid))
		) SELECT count(*) FROM waiting`, holder).Scan(&n).Error
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Behind begins a call that has to wait for a transaction, and returns when n sessions wait for that or
// when the call has ended without waiting. The channel is closed when the call ends.
func Behind(t testing.TB, env *Env, tx *gorm.DB, n int, call func()) (ended chan struct{}) {
	t.Helper()
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		call()
	}()
	Eventually(t, "the call waits, or ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			return Blocked(t, env, tx) == n
		}
	})
	return ended
}
