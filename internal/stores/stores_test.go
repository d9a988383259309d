package stores_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	if err := stores.CheckRedis(t.Context(), env.Redis); err != nil {
		t.Errorf("a Redis that does not evict: %v", err)
	}
	server := testenv.StartRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	if err := stores.CheckRedis(t.Context(), rdb); err == nil || !strings.Contains(err.Error(), "allkeys-lru") || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("a Redis that evicts: %v", err)
	}
	if err := rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	if err := stores.CheckRedis(t.Context(), rdb); !errors.Is(err, stores.ErrPolicyUnknown) {
		t.Errorf("a Redis that does not reveal its policy: %v", err)
	}
	server.Kill()
	if err := stores.CheckRedis(t.Context(), rdb); err == nil || errors.Is(err, stores.ErrPolicyUnknown) {
		t.Errorf("a Redis that is down: %v", err)
	}
}

// The error of a bad DSN does not quote the DSN, which may hold a password.
func TestABadDSNIsNotPrinted(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"password = hunter22 host=a port=x", "postgres://u:hunter22@host:port/db", "postgres://u:hunter22@host/db?sslmode=hunter22",
	} {
		cfg := config.Default()
		cfg.Postgres.DSN = dsn
		_, err := stores.Open(t.Context(), cfg, time.Now, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "postgres.dsn: ") || strings.Contains(err.Error(), ":hunter22") || strings.Contains(err.Error(), "= hunter22") {
			t.Errorf("error %v", err)
		}
	}
}

// A connection in use does not keep the process from ending.
func TestClosingWithAConnectionInUse(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	conn, err := env.Pool.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Close(); err != nil {
		t.Error(err)
	}
	conn.Release()
}

// A cancelled transaction closes its connection, but the database in memory stays.
func TestTheDatabaseInMemorySurvivesACancelledTransaction(t *testing.T) {
	t.Parallel()
	s, err := stores.OpenMemory(t.Context(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = s.Gorm.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		cancel()
		return tx.Exec("SELECT 1").Error
	})
	if err == nil {
		t.Error("the transaction was not cancelled")
	}
	var n int64
	if err := s.Gorm.WithContext(t.Context()).Model(&models.User{}).Count(&n).Error; err != nil {
		t.Error(err)
	}
}
