package directory_test

import (
	"fmt"
	"sync"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/directory"
	"stepboard/services/servicetest"
)

// newFollower returns the directory of a process that hears of changes only when the test
// calls Follow.
func newFollower(t testing.TB, env *testenv.Env) *directory.Service {
	t.Helper()
	s := directory.New(directory.Options{
		Store: directory.NewStore(env.Gorm), Copies: servicetest.Users(env), Memory: 1_000_000, Log: env.Log,
	})
	t.Cleanup(s.Close)
	if err := s.LoadErased(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A renamed user keeps the row id. The former id is nobody's, and somebody new's after that,
// in all processes, whatever copies say, and also if the process that renames dies.
func TestRename(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s, other, ctx := newFollower(t, env), newFollower(t, env), t.Context()
	processes := map[string]*directory.Service{"the process": s, "another process": other}
	rows := testenv.Must(s.Ensure(ctx, "ann", "ben", "cid"))
	for name, rename := range map[string]func(user, to models.UserID) error{
		"by the process": func(user, to models.UserID) error { return s.Rename(ctx, user, to) },
		"by a process that dies": func(user, to models.UserID) error {
			return directory.RenameInSQL(ctx, directory.NewStore(env.Gorm), user, to)
		},
	} {
		for _, p := range processes { // they have copies
			testenv.Must(p.Find(ctx, "ann", "ben", "cid"))
			testenv.Must(p.Records(ctx, rows))
		}
		if err := rename("ann", "eve"); err != nil {
			t.Fatal(name, err)
		}
		processes["a new process"] = newFollower(t, env)
		for who, p := range processes {
			if err := p.Follow(ctx); err != nil {
				t.Fatal(err)
			}
			if found := testenv.Must(p.Find(ctx, "ann", "eve", "ben")); found[0] != 0 || found[1] != rows[0] || found[2] != rows[1] {
				t.Errorf("%s, %s finds %v, want 0 and %v", name, who, found, rows[:2])
			}
			if r := testenv.Must(p.Records(ctx, rows[:1]))[0]; r.User != "eve" {
				t.Errorf("%s, %s has the record %v", name, who, r)
			}
		}
		// Another user gets the former id, and this one the id of that user.
		if err := rename("cid", "ann"); err != nil {
			t.Fatal(name, err)
		}
		if err := rename("eve", "cid"); err != nil {
			t.Fatal(name, err)
		}
		for who, p := range processes {
			if err := p.Follow(ctx); err != nil {
				t.Fatal(err)
			}
			if found := testenv.Must(p.Ensure(ctx, "ann", "cid", "ben")); found[0] != rows[2] || found[1] != rows[0] || found[2] != rows[1] {
				t.Errorf("%s, %s finds %v after a swap, want %v", name, who, found, rows)
			}
			if many := testenv.Must(p.EnsureMany(ctx, []models.UserID{"ann", "cid"})); many[0] != rows[2] || many[1] != rows[0] {
				t.Errorf("%s, %s finds %v among many after a swap, want %v", name, who, many, rows)
			}
		}
		rows[0], rows[2] = rows[2], rows[0]
		delete(processes, "a new process")
	}
	// Whoever writes under a former id is somebody new.
	if err := s.Rename(ctx, "ben", "dan"); err != nil {
		t.Fatal(err)
	}
	if n := env.Redis.Exists(ctx, env.Keys.UserRow("ben")).Val(); n != 0 {
		t.Error("Redis has a copy of the former id")
	}
	// A process that has not heard of it stores a copy.
	if err := env.Redis.Set(ctx, env.Keys.UserRow("ben"), int64(rows[1]), 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := other.Follow(ctx); err != nil {
		t.Fatal(err)
	}
	found := testenv.Must(other.Ensure(ctx, "ben", "dan"))
	if found[0] <= rows[2] || found[1] != rows[1] {
		t.Errorf("found %v, want somebody new and %d", found, rows[1])
	}
	if again := testenv.Must(s.FindOne(ctx, "ben")); again != found[0] {
		t.Errorf("the process finds the new user in row %d, another one in %d", again, found[0])
	}
}

func TestRenameRefuses(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s, ctx := newFollower(t, env), t.Context()
		rows := testenv.Must(s.Ensure(ctx, "ann", "ben"))
		version := func() (v int64) {
			if err := env.Gorm.Raw(`SELECT version FROM users WHERE user_id = ?`, rows[0]).Scan(&v).Error; err != nil {
				t.Fatal(err)
			}
			return v
		}
		rename := func(user, to models.UserID, want models.Code) {
			t.Helper()
			if err := s.Rename(ctx, user, to); models.CodeOf(err) != want {
				t.Errorf("%s to %s: %v, want %q", user, to, err, want)
			}
		}
		rename("ann", "ben", models.CodeUserExists)
		rename("nobody", "new", models.CodeUserNotFound)
		rename("nobody", "ben", models.CodeUserNotFound)
		rename("nobody", "nobody", models.CodeUserNotFound)
		before := version()
		rename("ann", "ann", "")
		if version() != before {
			t.Error("renaming to the own id is a change")
		}
		// Its answer was lost, so it is sent again.
		rename("ann", "eve", "")
		before = version()
		rename("ann", "eve", "")
		if version() != before {
			t.Error("a repeated renaming is a change")
		}
		rename("eve", "ann", "")
		rename("eve", "fay", models.CodeUserNotFound)
		rename("ann", "fay", "")
		rename("ann", "eve", models.CodeUserNotFound) // it was not the last one
		if found := testenv.Must(s.FindOne(ctx, "fay")); found != rows[0] {
			t.Errorf("fay has row %d, want %d", found, rows[0])
		}
	})
}

// Of several renamings to one id at once, exactly one wins, also while somebody new comes
// under that id.
func TestRenamesAtOnce(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s, other, ctx := newFollower(t, env), newFollower(t, env), t.Context()
		const users = 8
		for round := range 5 {
			to := models.UserID(fmt.Sprintf("to-%d", round))
			names := make([]models.UserID, users)
			for i := range names {
				names[i] = models.UserID(fmt.Sprintf("%d-%d", round, i))
			}
			rows := testenv.Must(s.Ensure(ctx, names...))
			errs := make([]error, users)
			var created models.RowID
			var running sync.WaitGroup
			for i, name := range names {
				running.Go(func() { errs[i] = []*directory.Service{s, other}[i%2].Rename(ctx, name, to) })
			}
			running.Go(func() { created = testenv.Must(other.Ensure(ctx, to))[0] })
			testenv.Wait(t, "all that runs ends", &running)
			won := models.RowID(0)
			for i, err := range errs {
				switch {
				case err == nil && won != 0:
					t.Errorf("two users are %s", to)
				case err == nil:
					won = rows[i]
				case models.CodeOf(err) != models.CodeUserExists:
					t.Error(err)
				}
			}
			var stored []models.RowID
			if err := env.Gorm.Raw(`SELECT user_id FROM users WHERE external_id = ?`, to).Scan(&stored).Error; err != nil {
				t.Fatal(err)
			}
			if len(stored) != 1 || stored[0] != created || won != 0 && won != created {
				t.Errorf("%s is in the rows %v, %d was renamed, %d was found or created", to, stored, won, created)
			}
		}
	})
}
