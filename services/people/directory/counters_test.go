package directory_test

import (
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// After an older backup of Postgres was restored under a newer Redis, serve is refused.
// rebuild moves the counters on, so that nobody gets the row id of somebody else, and
// updates that name a row id which the backup lacks are recognized.
func TestAnOlderPostgresUnderANewerRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	before := newService(t, env)
	kept := testenv.Must(before.Ensure(t.Context(), "ann"))[0]
	lost := testenv.Must(before.Ensure(t.Context(), "ben", "cem", "dan"))
	testenv.Must(before.Put(t.Context(), "ann", models.Profile{Nickname: "Ann"}))
	testenv.Eventually(t, "Redis has the counters", func() bool {
		return env.Redis.HGet(t.Context(), env.Keys.UserCounters(), "version").Val() != ""
	})
	if err := before.CheckCounters(t.Context()); err != nil {
		t.Fatalf("before the restore: %v", err)
	}
	before.Close()

	// The backup was made when Ann had just come.
	for _, statement := range []string{
		`DELETE FROM users WHERE external_id <> 'ann'`,
		`UPDATE users SET nickname = '', version = 0, changed_at = NULL`,
		`SELECT setval(pg_get_serial_sequence('users', 'user_id'), max(user_id)) FROM users`,
		`ALTER SEQUENCE user_versions RESTART`,
	} {
		if _, err := env.Pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s := newService(t, env)
	if err := s.CheckCounters(t.Context()); err == nil {
		t.Fatal("an older database is not recognized")
	}
	skipped, err := s.Rebuild(t.Context())
	if err != nil || skipped <= int64(len(lost)) {
		t.Fatalf("%d row ids are left out, %v", skipped, err)
	}
	if err := s.CheckCounters(t.Context()); err != nil {
		t.Errorf("after the rebuild: %v", err)
	}
	// A process that starts now, as all do after a restore.
	after := newService(t, env)
	if rows := testenv.Must(after.Find(t.Context(), "ann", "ben")); rows[0] != kept || rows[1] != 0 {
		t.Errorf("rows %v", rows)
	}
	if got := profileOf(t, after, kept); got.Nickname != "" {
		t.Errorf("the copy of a lost profile is shown: %v", got)
	}
	came := testenv.Must(after.Ensure(t.Context(), "eve"))[0]
	if came <= lost[2] {
		t.Errorf("Eve has row %d, and Dan had %d", came, lost[2])
	}
	for row, want := range map[models.RowID]bool{kept: true, came: true, lost[0]: false, lost[2]: false, came - 1: false, came + 1: false} {
		if got, err := after.Exists(t.Context(), row); err != nil || got != want {
			t.Errorf("row %d exists: %v, %v, want %v", row, got, err, want)
		}
	}
	testenv.Must(after.Put(t.Context(), "ann", models.Profile{Nickname: "Ann again"}))
	testenv.Eventually(t, "other processes show the profile", func() bool { return profileOf(t, s, kept).Nickname == "Ann again" })
	if again := testenv.Must(after.Rebuild(t.Context())); again != 0 {
		t.Errorf("a second rebuild leaves out %d row ids", again)
	}
}

// Versions go on growing after the user with the largest one was erased. A smaller one would
// look like that of a backup, and serve would be refused.
func TestVersionsGrowAfterAnErasure(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newService(t, env)
	testenv.Must(s.Ensure(t.Context(), "ann", "ben"))
	for _, user := range []models.UserID{"ann", "ben"} {
		testenv.Must(s.Put(t.Context(), user, models.Profile{Nickname: "A walker"}))
	}
	testenv.Eventually(t, "Redis has the counters", func() bool {
		return env.Redis.HGet(t.Context(), env.Keys.UserCounters(), "version").Val() == "2"
	})
	if err := env.Gorm.Exec(`DELETE FROM users WHERE external_id = 'ben'`).Error; err != nil {
		t.Fatal(err)
	}
	if err := s.CheckCounters(t.Context()); err != nil {
		t.Error(err)
	}
}
