package directory_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/internal/pause"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/directory"
	"stepboard/services/servicetest"
)

// newService returns the directory of one process on the stores.
func newService(t testing.TB, env *testenv.Env) *directory.Service {
	t.Helper()
	return newServiceWith(t, env, 64_000_000)
}

// cachedIn counts the keys that Redis has, if there is one.
func cachedIn(env *testenv.Env, names ...string) int64 {
	if env.Redis == nil {
		return 0
	}
	return env.Redis.Exists(context.Background(), names...).Val()
}

func newServiceWith(t testing.TB, env *testenv.Env, memory int64) *directory.Service {
	t.Helper()
	s := directory.New(directory.Options{
		Store: directory.NewStore(env.Gorm), Copies: servicetest.Users(env), Memory: memory, Log: env.Log,
	})
	t.Cleanup(s.Close)
	testenv.Background(t, func(ctx context.Context) {
		pause.Every(ctx, directory.FollowEvery, func() { _ = s.Follow(ctx) }) // the next one tries again
	})
	return s
}

// oddIDs are user ids of several shapes, among them those that have a meaning in
// patterns, paths, SQL and Redis.
var oddIDs = []models.UserID{
	"1", "01", "-1", "9223372036854775808", "c56a4180-65aa-42ec-a945-5fd21dec0538", "C56A4180-65AA-42EC-A945-5FD21DEC0538",
	"auth0|5f7c8ec7", "a/b", "a%2Fb", "{1}", "}", "*", "?", "[a]", "\\", "'", `"`, "a,b", "$1", "null", "NULL", "...", "~",
}

// Users are found by exactly their own id, at each level, and are not created by
// being looked for.
func TestFindAndEnsure(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newService(t, env)
		if rows := testenv.Must(s.Find(t.Context(), oddIDs...)); slices.Max(rows) != 0 {
			t.Fatalf("found %v in an empty directory", rows)
		}
		rows := testenv.Must(s.Ensure(t.Context(), oddIDs...))
		if distinct := slices.Compact(slices.Sorted(slices.Values(rows))); len(distinct) != len(oddIDs) || distinct[0] == 0 {
			t.Fatalf("rows %v", rows)
		}
		for name, other := range map[string]*directory.Service{"the same process": s, "another process": newService(t, env)} {
			for _, find := range []func() ([]models.RowID, error){
				func() ([]models.RowID, error) { return other.Find(t.Context(), oddIDs...) },
				func() ([]models.RowID, error) { return other.Ensure(t.Context(), oddIDs...) },
			} {
				if got := testenv.Must(find()); !slices.Equal(got, rows) {
					t.Errorf("%s finds %v, want %v", name, got, rows)
				}
			}
			for i, r := range testenv.Must(other.Records(t.Context(), rows)) {
				if r.User != oddIDs[i] {
					t.Errorf("%s has %v as record of %s", name, r, oddIDs[i])
				}
			}
		}
		// The same user twice in one call, and one that does not exist.
		twice := testenv.Must(s.Ensure(t.Context(), "new", "1", "new"))
		if twice[0] != twice[2] || twice[1] != rows[0] || twice[0] == 0 {
			t.Errorf("rows %v", twice)
		}
		if records := testenv.Must(s.Records(t.Context(), []models.RowID{twice[0], 1 << 40})); records[0].User != "new" || records[1].User != "" {
			t.Errorf("records %v", records)
		}
	})
}

// Very many users are found and created at once, some of whom exist or are named twice.
// Redis gets no copies of them, and knows the highest row id.
func TestEnsureMany(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s, ctx := newService(t, env), t.Context()
		known := testenv.Must(s.Ensure(ctx, oddIDs[:5]...))
		users := slices.Clone(oddIDs)
		for i := range 5000 {
			users = append(users, models.UserID(fmt.Sprintf("user-%d", i*7919%5000)))
		}
		users = append(users, users[:100]...)
		for i, process := range []*directory.Service{s, newService(t, env)} {
			name := fmt.Sprintf("process %d", i+1)
			rows := testenv.Must(process.EnsureMany(ctx, users))
			if !slices.Equal(rows[:5], known) || !slices.Equal(rows[len(rows)-100:], rows[:100]) {
				t.Errorf("%s finds %v, want %v; named again %v", name, rows[:5], known, rows[len(rows)-100:])
			}
			if n := cachedIn(env, env.Keys.UserRow("user-1")); n != 0 {
				t.Errorf("%s has stored a copy in Redis", name)
			}
			highest := models.RowID(len(oddIDs) + 5000)
			if sorted := slices.Compact(slices.Sorted(slices.Values(rows))); sorted[len(sorted)-1] != highest || len(sorted) != int(highest) {
				t.Errorf("%s: %d rows up to %d", name, len(sorted), sorted[len(sorted)-1])
			}
		}
		if created := s.Stats().Created.Load(); created != int64(len(oddIDs)+5000) {
			t.Errorf("%d users were created", created)
		}
		if env.Redis == nil {
			return
		}
		if row := env.Redis.HGet(ctx, env.Keys.UserCounters(), "row").Val(); row != fmt.Sprint(len(oddIDs)+5000) {
			t.Errorf("the highest row id in Redis is %q", row)
		}
		queries := s.Stats().Queries.Load()
		rows, other := testenv.Must(s.EnsureMany(ctx, users)), newService(t, env)
		if n := s.Stats().Queries.Load() - queries; n != 0 {
			t.Errorf("%d queries for users that the process has found", n)
		}
		// Somebody who was erased is created again.
		s.Forget(ctx, oddIDs[0], rows[0])
		if err := env.Gorm.Exec(`UPDATE users SET external_id = 'erased' WHERE user_id = ?`, rows[0]).Error; err != nil {
			t.Fatal(err)
		}
		again := testenv.Must(s.EnsureMany(ctx, users))
		if again[0] == rows[0] || again[0] == 0 || !slices.Equal(again[1:len(oddIDs)], rows[1:len(oddIDs)]) {
			t.Errorf("rows %v after an erasure, before %v", again[:len(oddIDs)], rows[:len(oddIDs)])
		}
		rows = again
		var found []models.RowID
		for some := range slices.Chunk(users, 500) { // a call has a time limit
			found = append(found, testenv.Must(other.Find(ctx, some...))...)
		}
		if !slices.Equal(rows, found) {
			t.Error("single users are found under other rows")
		}
	})
}

// The records of many users are those that SQL has, whatever copies say. Reading them stores
// no copies.
func TestRecordsMany(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		writer, reader, ctx := newService(t, env), newService(t, env), t.Context()
		rows := testenv.Must(writer.EnsureMany(ctx, oddIDs))
		rows = append(rows, 1<<40, rows[0])
		records := testenv.Must(reader.RecordsMany(ctx, rows))
		for i, record := range records[:len(oddIDs)] {
			if record.User != oddIDs[i] {
				t.Errorf("record %d is %v", i, record)
			}
			if n := cachedIn(env, env.Keys.User(rows[i]), env.Keys.UserRow(oddIDs[i])); n != 0 {
				t.Errorf("Redis has a copy of %s", oddIDs[i])
			}
		}
		if records[len(oddIDs)].User != "" || records[len(oddIDs)+1] != records[0] {
			t.Errorf("records %v", records[len(oddIDs):])
		}
		if n := directory.HeldRecords(reader); n != 0 {
			t.Errorf("the process holds %d records", n)
		}
		before := testenv.Must(reader.Records(ctx, rows[:1]))[0]
		testenv.Must(writer.Put(ctx, oddIDs[0], models.Profile{Nickname: "Ann"}))
		if after := testenv.Must(reader.RecordsMany(ctx, rows[:1]))[0]; before.Nickname != "" || after.Nickname != "Ann" {
			t.Errorf("nickname %q, then %q", before.Nickname, after.Nickname)
		}
	})
}

// Two processes that create the same many users at the same time, in different orders,
// get the same rows.
func TestEnsureManyAtOnce(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	var results [4][]models.RowID
	var wg sync.WaitGroup
	for i := range results {
		process := newService(t, env)
		wg.Go(func() {
			users := make([]models.UserID, 3000)
			for n := range users {
				users[n] = models.UserID(fmt.Sprintf("user-%d", n))
			}
			if i%2 == 1 {
				slices.Reverse(users)
			}
			rows, err := process.EnsureMany(t.Context(), users)
			if err != nil {
				t.Error(err)
			}
			if i%2 == 1 {
				slices.Reverse(rows)
			}
			results[i] = rows
		})
	}
	testenv.Wait(t, "the calls end", &wg)
	for i, rows := range results {
		if !slices.Equal(rows, results[0]) {
			t.Errorf("process %d has other rows than the first", i)
		}
	}
}

// A thousand first writes of one user at the same time make one user, in several
// processes; and so do writes of many users in different orders. Row ids are nearly
// without gaps.
func TestConcurrentCreation(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	processes := []*directory.Service{newService(t, env), newService(t, env), newService(t, env)}
	const writers = 1000
	rows := make([]models.RowID, writers)
	var wg sync.WaitGroup
	for i := range rows {
		wg.Go(func() {
			rows[i] = testenv.Must(testenv.Available(t, func() ([]models.RowID, error) {
				return processes[i%len(processes)].Ensure(t.Context(), "somebody")
			}))[0]
		})
	}
	testenv.Wait(t, "the calls end", &wg)
	if distinct := slices.Compact(slices.Sorted(slices.Values(rows))); len(distinct) != 1 || distinct[0] == 0 {
		t.Errorf("%d rows: %v", len(distinct), distinct)
	}
	const many = 2000
	ids := make([]models.UserID, many)
	for i := range ids {
		ids[i] = models.UserID(fmt.Sprintf("user-%d", i*7919%many))
	}
	var results [6][]models.RowID
	for i := range results {
		wg.Go(func() {
			mine := slices.Clone(ids)
			if i%2 == 1 {
				slices.Reverse(mine)
			}
			results[i] = testenv.Must(testenv.Available(t, func() ([]models.RowID, error) {
				return processes[i%len(processes)].Ensure(t.Context(), mine...)
			}))
			if i%2 == 1 {
				slices.Reverse(results[i])
			}
		})
	}
	testenv.Wait(t, "the calls end", &wg)
	for i, got := range results {
		if !slices.Equal(got, results[0]) {
			t.Errorf("process %d has other rows than the first", i)
		}
	}
	var count, highest int64
	if err := env.Gorm.Raw("SELECT count(*), max(user_id) FROM users").Row().Scan(&count, &highest); err != nil {
		t.Fatal(err)
	}
	// Each process that loses a race for the same users wastes at most those.
	if count != many+1 || highest > 3*(many+1) {
		t.Errorf("%d users, the highest row id is %d", count, highest)
	}
}

// Creating a thousand users takes a handful of statements.
func TestCreationInBulk(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newService(t, env)
	users := make([]models.UserID, 1000)
	for i := range users {
		users[i] = models.UserID(fmt.Sprint("bulk-", i))
	}
	before := env.Pool.Stat().AcquireCount()
	rows := testenv.Must(s.Ensure(t.Context(), users...))
	// The process also looks for changes once a second: 4 statements each time.
	if n := env.Pool.Stat().AcquireCount() - before; n > 50 {
		t.Errorf("%d statements", n)
	}
	if again := testenv.Must(s.Ensure(t.Context(), users...)); !slices.Equal(again, rows) {
		t.Error("the same users again have other rows")
	}
	if r := testenv.Must(newService(t, env).Records(t.Context(), rows[999:])); r[0].User != "bulk-999" {
		t.Errorf("record %v", r)
	}
	var highest int64
	if err := env.Gorm.Raw("SELECT max(user_id) FROM users").Row().Scan(&highest); err != nil || highest != 1000 {
		t.Errorf("the highest row id is %d, %v", highest, err)
	}
}

// A profile that changed is seen at once by the process that has changed it, and by
// the others soon, whether or not they have shown it before.
func TestProfilesChange(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		one, two, three := newService(t, env), newService(t, env), newService(t, env)
		row := testenv.Must(one.Ensure(t.Context(), "ann"))[0]
		for round := range 3 {
			want := models.Profile{Nickname: fmt.Sprint("Ann ", round), AvatarURL: "https://example.com/a.png"}
			if got := testenv.Must(one.Put(t.Context(), "ann", want)); got != want {
				t.Errorf("put returns %v", got)
			}
			if got := testenv.Must(two.Get(t.Context(), "ann")); got != want {
				t.Errorf("get returns %v", got)
			}
			if got := profileOf(t, one, row); got != want {
				t.Errorf("the writer shows %v, want %v", got, want)
			}
			testenv.Eventually(t, "the other process shows the change", func() bool { return profileOf(t, two, row) == want })
		}
		if got := profileOf(t, three, row); got.Nickname != "Ann 2" {
			t.Errorf("a process that shows the user for the first time shows %v", got)
		}
	})
}

func profileOf(t testing.TB, s *directory.Service, row models.RowID) models.Profile {
	t.Helper()
	r := testenv.Must(s.Records(t.Context(), []models.RowID{row}))[0]
	return models.Profile{Nickname: r.Nickname, AvatarURL: r.AvatarURL.String()}
}

// A writer that dies after the commit leaves an old copy in Redis. Processes that have
// a copy and those that have none show the new profile all the same.
func TestAWriterDiesBeforeItRefreshesRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	holder, other := newService(t, env), newService(t, env)
	row := testenv.Must(holder.Ensure(t.Context(), "ann"))[0]
	testenv.Must(holder.Put(t.Context(), "ann", models.Profile{Nickname: "Ann"}))
	want := models.Profile{Nickname: "Bea"}
	store := directory.NewStore(env.Gorm)
	if err := directory.PutInSQL(t.Context(), store, row, want); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the process with a copy shows the change", func() bool { return profileOf(t, holder, row) == want })
	testenv.Eventually(t, "the process without a copy shows the change", func() bool { return profileOf(t, other, row) == want })
	testenv.Eventually(t, "Redis has the change", func() bool {
		return strings.Contains(env.Redis.Get(t.Context(), env.Keys.User(row)).Val(), "Bea")
	})
}

// renewed returns a user who was named Old and then New, the key of their copy in Redis, and what that
// had then.
func renewed(t *testing.T, env *testenv.Env, s *directory.Service) (row models.RowID, key, old, latest string) {
	t.Helper()
	row = testenv.Must(s.Ensure(t.Context(), "ann"))[0]
	key = env.Keys.User(row)
	testenv.Must(s.Put(t.Context(), "ann", models.Profile{Nickname: "Old"}))
	old = env.Redis.Get(t.Context(), key).Val()
	testenv.Must(s.Put(t.Context(), "ann", models.Profile{Nickname: "New"}))
	return row, key, old, env.Redis.Get(t.Context(), key).Val()
}

// An old copy never replaces a newer one, in Redis and in the process.
func TestOldCopiesLose(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newService(t, env)
	row, key, old, latest := renewed(t, env, s)
	if err := directory.StoreInRedis(t.Context(), s, old); err != nil {
		t.Fatal(err)
	}
	if got := env.Redis.Get(t.Context(), key).Val(); got != latest {
		t.Errorf("redis has %q, want %q", got, latest)
	}
	// A Redis that went back in time has the old copy; the process that knows of
	// the change does not believe it, even without a copy of its own.
	if err := env.Redis.Set(t.Context(), key, old, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	directory.ForgetRecords(s)
	if got := profileOf(t, s, row); got.Nickname != "New" {
		t.Errorf("shows %v", got)
	}
}

// A Redis that went back in time gets the records again that have changed since.
func TestRestore(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newService(t, env)
	_, key, old, latest := renewed(t, env, s)
	for name, since := range map[string]time.Time{"a moment": time.Now(), "everything": {}} {
		if err := env.Redis.Set(t.Context(), key, old, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		if stored, err := s.Restore(t.Context(), since); err != nil || stored != 1 {
			t.Fatalf("%s: %d records are stored, %v", name, stored, err)
		}
		if got := env.Redis.Get(t.Context(), key).Val(); got != latest {
			t.Errorf("%s: redis has %q, want %q", name, got, latest)
		}
	}
}

// While SQL is away, users that the process or Redis knows are found, with their names;
// others are 503.
func TestWithoutSQL(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	first := newService(t, env)
	row := testenv.Must(first.Ensure(t.Context(), "ann"))[0]
	testenv.Must(first.Put(t.Context(), "ann", models.Profile{Nickname: "Ann"}))
	second := newService(t, env)
	closeSQL(t, env)
	for name, s := range map[string]*directory.Service{"the process": first, "redis": second} {
		if rows, err := s.Ensure(t.Context(), "ann"); err != nil || rows[0] != row {
			t.Errorf("%s: %v, %v", name, rows, err)
		}
		if got := profileOf(t, s, row); got.Nickname != "Ann" {
			t.Errorf("%s shows %v", name, got)
		}
		if _, err := s.Ensure(t.Context(), "ann", "ben"); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("%s: an unknown user: %v", name, err)
		}
		if _, err := s.Records(t.Context(), []models.RowID{row, row + 1}); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("%s: an unknown record: %v", name, err)
		}
		if _, err := s.Put(t.Context(), "ann", models.Profile{Nickname: "Bea"}); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("%s: put: %v", name, err)
		}
	}
}

// A process that was stopped looks up users only when it has read who was erased and renamed
// meanwhile.
// While SQL is away it finds users as before, but soon allows no change of SQL.
func TestErasuresAreHeardLate(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		clock := testenv.NewClock(testenv.Noon)
		s := directory.New(directory.Options{
			Store: directory.NewStore(env.Gorm), Copies: servicetest.Users(env),
			Memory: 1_000_000, Log: env.Log, Elapsed: clock.Now,
		})
		t.Cleanup(s.Close)
		if err := s.LoadErased(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows := testenv.Must(s.Ensure(t.Context(), "ann", "ben", "cid"))
		allowed := func(want models.Code) {
			t.Helper()
			if err := s.CheckErasures(t.Context()); models.CodeOf(err) != want {
				t.Errorf("a change of SQL: %v, want %q", err, want)
			}
		}
		// As another process does.
		if err := env.Gorm.Exec(`DELETE FROM users WHERE user_id = ?`, rows[0]).Error; err != nil {
			t.Fatal(err)
		}
		if err := env.Gorm.Create(&models.Erasure{Row: rows[0], Hash: []byte{1}, BegunAt: testenv.Noon, FinishedAt: &testenv.Noon}).Error; err != nil {
			t.Fatal(err)
		}
		if err := directory.RenameInSQL(t.Context(), directory.NewStore(env.Gorm), "cid", "eve"); err != nil {
			t.Fatal(err)
		}
		clock.Advance(2 * time.Second)
		if found := testenv.Must(s.FindOne(t.Context(), "ann")); found != rows[0] {
			t.Errorf("a user who was erased 2 seconds ago has row %d", found)
		}
		clock.Advance(19 * time.Second)
		allowed("") // it reads the erasures
		if found := testenv.Must(s.FindOne(t.Context(), "ann")); found != 0 {
			t.Errorf("the erased user has row %d", found)
		}
		if found := testenv.Must(s.FindOne(t.Context(), "cid")); found != 0 {
			t.Errorf("the former id of a renamed user has row %d", found)
		}
		closeSQL(t, env)
		clock.Advance(19 * time.Second)
		allowed("")
		clock.Advance(2 * time.Second)
		allowed(models.CodeUnavailable)
		if found := testenv.Must(s.FindOne(t.Context(), "ben")); found != rows[1] {
			t.Errorf("without SQL, a user is found in row %d, want %d", found, rows[1])
		}
	})
}

// A process that was stopped while it read who was erased, and then gave up, has not tried since.
func TestStoppedWhileReadingErasures(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		clock, stop := testenv.NewClock(testenv.Noon), func() {}
		s := directory.New(directory.Options{
			Store: directory.NewStore(env.Gorm), Copies: servicetest.Users(env), Memory: 1_000_000, Log: env.Log,
			Elapsed: func() time.Time { defer stop(); return clock.Now() },
		})
		t.Cleanup(s.Close)
		if err := s.LoadErased(t.Context()); err != nil {
			t.Fatal(err)
		}
		row := testenv.Must(s.Ensure(t.Context(), "ann"))[0]
		if err := env.Gorm.Exec(`DELETE FROM users WHERE user_id = ?`, row).Error; err != nil { // as another process does
			t.Fatal(err)
		}
		if err := env.Gorm.Create(&models.Erasure{Row: row, Hash: []byte{1}, BegunAt: testenv.Noon, FinishedAt: &testenv.Noon}).Error; err != nil {
			t.Fatal(err)
		}
		ctx, giveUp := context.WithCancel(t.Context())
		stop = func() {
			stop = func() {}
			clock.Advance(time.Minute)
			giveUp()
		}
		if err := s.LoadErased(ctx); err == nil {
			t.Fatal("it has read them")
		}
		if found := testenv.Must(s.FindOne(t.Context(), "ann")); found != 0 {
			t.Errorf("the erased user has row %d", found)
		}
	})
}

func closeSQL(t testing.TB, env *testenv.Env) {
	t.Helper()
	if env.Pool != nil {
		env.Pool.Close()
	}
	if err := env.SQL.Close(); err != nil {
		t.Fatal(err)
	}
}

// While Redis is away, users are found and created as before.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newService(t, env)
	testenv.Must(s.Put(t.Context(), "ann", models.Profile{Nickname: "Ann"}))
	if err := env.Redis.Close(); err != nil {
		t.Fatal(err)
	}
	rows := testenv.Must(s.Ensure(t.Context(), "ann", "ben"))
	testenv.Must(s.Put(t.Context(), "ben", models.Profile{Nickname: "Ben"}))
	directory.ForgetRecords(s)
	records := testenv.Must(s.Records(t.Context(), rows))
	if records[0].Nickname != "Ann" || records[1].Nickname != "Ben" {
		t.Errorf("records %v", records)
	}
}

// When Redis has lost all records, a process asks SQL for them in few statements,
// however many calls need them at the same time.
func TestNoStampede(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	const users = 3000
	list := make([]models.UserID, users)
	for i := range list {
		list[i] = models.UserID(fmt.Sprint("user-", i))
	}
	rows := testenv.Must(newService(t, env).Ensure(t.Context(), list...))
	for _, row := range rows {
		env.Redis.Del(t.Context(), env.Keys.User(row))
	}
	s := newService(t, env)
	before := s.Stats().Queries.Load()
	var wg sync.WaitGroup
	const calls = 200
	for i := range calls {
		wg.Go(func() {
			page, want := make([]models.RowID, 50), make([]models.UserID, 50)
			for j := range page {
				n := (i*31 + j*97) % users
				page[j], want[j] = rows[n], list[n]
			}
			records, err := testenv.Available(t, func() ([]models.PublicRecord, error) { return s.Records(t.Context(), page) })
			if err != nil {
				t.Error(err)
			}
			for j, r := range records {
				if r.User != want[j] {
					t.Errorf("record %v of user %s", r, want[j])
				}
			}
		})
	}
	testenv.Wait(t, "the calls end", &wg)
	// Two hundred calls with 50 misses each: two statements at a time read the records
	// that no other one has read.
	if n := s.Stats().Queries.Load() - before; n > 20 {
		t.Errorf("%d statements for %d calls", n, calls)
	}
}

// Without Redis users are found and shown by the process's memory and by SQL, nothing is restored
// or dropped, and counters are those of SQL.
func TestNoCopies(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s, ctx := newService(t, env), t.Context()
	row := testenv.Must(s.Ensure(ctx, "ann"))[0]
	testenv.Must(s.Put(ctx, "ann", models.Profile{Nickname: "Ann"}))
	fresh := newService(t, env)
	for range 2 {
		if rows := testenv.Must(fresh.Find(ctx, "ann", "ben")); rows[0] != row || rows[1] != 0 {
			t.Errorf("rows %v", rows)
		}
		if got := profileOf(t, fresh, row); got.Nickname != "Ann" {
			t.Errorf("profile %v", got)
		}
	}
	ids, records := &fresh.Stats().IDs, &fresh.Stats().Records
	if ids.Process.Load() != 1 || ids.Redis.Load() != 0 || ids.SQL.Load() != 3 {
		t.Errorf("ids by level: %d, %d, %d", ids.Process.Load(), ids.Redis.Load(), ids.SQL.Load())
	}
	if records.Process.Load() < 1 || records.Redis.Load() != 0 {
		t.Errorf("records by level: %d, %d, %d", records.Process.Load(), records.Redis.Load(), records.SQL.Load())
	}
	if err := s.CheckCounters(ctx); err != nil {
		t.Error(err)
	}
	if skipped, err := s.Rebuild(ctx); err != nil || skipped != 0 {
		t.Errorf("%d row ids skipped, %v", skipped, err)
	}
	if known, err := s.Exists(ctx, row); err != nil || !known {
		t.Errorf("the user exists: %v, %v", known, err)
	}
	if dropped, err := s.DropCopies(ctx, directory.Erased{Row: row}); err != nil || dropped != 0 {
		t.Errorf("%d copies dropped, %v", dropped, err)
	}
	if err := env.Gorm.Exec(`DELETE FROM users`).Error; err != nil {
		t.Fatal(err)
	}
	s.Forget(ctx, "ann", row)
	if rows := testenv.Must(s.Find(ctx, "ann")); rows[0] != 0 {
		t.Error("a user who was erased is found")
	}
}
