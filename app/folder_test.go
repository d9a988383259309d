package app

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// The size of the log is a metric: it grows behind whoever reads for long.
func TestSizesOfADataFolder(t *testing.T) {
	t.Parallel()
	st := testenv.Must(stores.OpenFolder(t.Context(), t.TempDir(), time.Now))
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	registry := prometheus.NewRegistry()
	registry.MustRegister(newFileCollector(st))
	found := make(map[string]float64)
	for _, family := range testenv.Must(registry.Gather()) {
		found[family.GetName()] = family.GetMetric()[0].GetGauge().GetValue()
	}
	database, log := st.FileSizes()
	if len(found) != 2 || log == 0 || found["stepboard_sqlite_wal_bytes"] != float64(log) || found["stepboard_sqlite_database_bytes"] != float64(database) {
		t.Errorf("%v with a database of %d bytes and a log of %d", found, database, log)
	}
}
