package archive_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/servicetest"
)

// A user with more days than one transaction changes is erased: on each day the entry has
// another row id, which nobody has, the ranks follow the ranking rule, and the stored hash is
// that of the rows.
func TestEraseManyDays(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		const days, erased = 210, models.RowID(100)
		f := newFixture(t, env, 1)
		var buckets []*models.Bucket
		stored := make(map[string][]models.Entry)
		for day := range days {
			b := f.today()
			entries := randomEntries(t, b, 12, uint64(day))
			// The best, the last, or equal to others.
			own := models.Entry{User: erased, Composite: entries[day%12].Composite}
			entries = append(entries, own)
			f.raise(b, entries...)
			buckets, stored[b.Name] = append(buckets, b), ranked(entries)
			env.Clock.Advance(24 * time.Hour)
		}
		f.makeDue(buckets[days-1])
		for _, b := range buckets {
			f.mustArchive(b)
		}
		for _, want := range []int64{days, 0} {
			if changed, err := f.archive.Erase(t.Context(), erased); changed != want || err != nil {
				t.Fatalf("changed %d, %v, want %d", changed, err, want)
			}
		}
		fresh := make(map[models.RowID]bool)
		for i, b := range buckets {
			rows := testenv.Must(f.archive.Window(t.Context(), b, board.Top, 0, 100)).Behind
			nobody := slices.IndexFunc(rows, func(e models.Entry) bool { return e.User >= models.FirstNobody })
			if nobody < 0 || fresh[rows[nobody].User] {
				t.Fatalf("%s has %v", b.Name, rows)
			}
			fresh[rows[nobody].User] = true
			want := slices.Clone(stored[b.Name])
			want[slices.IndexFunc(want, func(e models.Entry) bool { return e.User == erased })].User = rows[nobody].User
			if want := ranked(want); !slices.Equal(rows, want) {
				t.Errorf("%s has %v, want %v", b.Name, rows, want)
			}
			if i%30 == 0 {
				f.checkHash(b, rows[(nobody+1)%len(rows)].User)
			}
		}
	})
}

// checkHash checks the hash of an archived bucket against that of a further run, which reads
// all rows. The run merges an entry of a user that changes nothing. From hot_scores nobody would
// merge it; there the model of the archive compares hashes.
func (f *fixture) checkHash(b *models.Bucket, user models.RowID) {
	f.t.Helper()
	if f.env.Redis == nil {
		return
	}
	var before models.ArchiveRun
	if err := f.env.Gorm.Order("run DESC").Take(&before, "board = ? AND bucket = ?", b.Board, b.Name).Error; err != nil {
		f.t.Fatal(err)
	}
	f.raise(b, entry(f.t, b, user, 0, b.ClosesAt.Add(-time.Second)))
	after := f.mustArchive(b)
	if after.Run != before.Run+1 || after.Hash != before.Hash || after.Entries != before.Entries {
		f.t.Errorf("after the erasure %+v, after a further run %+v", before, after)
	}
}

// An erasure finds the rows of a user by their keys. It does not read those of others, even
// though there are many days and few rows on each, which Postgres would rather read all.
func TestEraseReadsNoRowsOfOthers(t *testing.T) {
	t.Parallel()
	const days, others = 400, 150
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	f.today()
	f.exec(fmt.Sprintf(`DO $$ BEGIN FOR ago IN 0..15 LOOP
		EXECUTE format('CREATE TABLE archived_scores_%%s PARTITION OF archived_scores FOR VALUES FROM (%%L) TO (%%L)', ago,
			date '2026-11-01' - ago * interval '1 month', date '2026-12-01' - ago * interval '1 month');
		END LOOP; END $$;
		INSERT INTO board_buckets SELECT (jsonb_populate_record(b, jsonb_build_object('bucket', 'past' || ago, 'day', b.day - ago))).*
		FROM board_buckets b, generate_series(1, %[1]d) AS ago;
		INSERT INTO archived_scores (user_id, score, reached_at, rank, day, board)
		SELECT user_id, 1000 - user_id, b.starts_at, user_id, b.day, b.board
		FROM board_buckets b, generate_series(1, %[2]d) AS user_id WHERE b.bucket LIKE 'past%%';
		ANALYZE archived_scores`, days, others+1))

	config := env.Pool.Config()
	config.MaxConns = 1 // the statistics of a session are read by the same one
	pool := testenv.Must(pgxpool.NewWithConfig(t.Context(), config))
	t.Cleanup(pool.Close)
	read := func() (rows int64) {
		t.Helper()
		_, err := pool.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`)
		if err == nil {
			err = pool.QueryRow(t.Context(), `SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
				WHERE schemaname = current_schema() AND relname LIKE 'archived_scores_%'`).Scan(&rows)
		}
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	s := archive.New(archive.NewStore(archive.StoreOptions{Runs: env.Gorm, Pool: pool}), servicetest.Source(f.boards), f.leases, env.Clock.Now, env.Log)
	t.Cleanup(s.Close)
	before := read()
	if changed, err := s.Erase(t.Context(), others/2); changed != days || err != nil {
		t.Fatalf("changed %d, %v", changed, err)
	}
	// For each day some statements read the user's row and the two next to it.
	if rows := read() - before; rows < days || rows > 20*days {
		t.Errorf("it has read %d rows for %d days of %d", rows, days, others+1)
	}
}
