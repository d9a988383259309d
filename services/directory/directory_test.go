package directory_test

import (
	"strings"
	"sync"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/directory"
)

func TestProfiles(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := directory.New(directory.NewStore(env.Gorm), env.Log)
		defer service.Close()
		ctx := t.Context()
		ann := models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a.png"}
		if err := service.Put(ctx, 1, ann); err != nil {
			t.Fatal(err)
		}
		got := service.Profiles(ctx, []models.UserID{2, 1, 1})
		if got[0] != (models.Profile{}) || got[1] != ann || got[2] != ann {
			t.Errorf("profiles %v", got)
		}
		// A change shows at once on the replica that made it, also for a user that
		// was cached as unknown.
		for _, id := range []models.UserID{1, 2} {
			changed := models.Profile{Nickname: "Новое имя " + id.String()}
			if err := service.Put(ctx, id, changed); err != nil {
				t.Fatal(err)
			}
			if got := service.Profiles(ctx, []models.UserID{id}); got[0] != changed {
				t.Errorf("user %v is shown as %v", id, got[0])
			}
		}
		// Create does not change existing profiles.
		if err := service.Create(ctx, map[models.UserID]models.Profile{1: {Nickname: "Eve"}, 3: {}}); err != nil {
			t.Fatal(err)
		}
		if got := service.Profiles(ctx, []models.UserID{1}); got[0].Nickname != "Новое имя 1" {
			t.Errorf("user 1 became %v", got[0])
		}
	})
}

// Profiles that were read once come from the cache.
func TestProfilesAreCached(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := directory.New(directory.NewStore(env.Gorm), env.Log)
		defer service.Close()
		if err := service.Put(t.Context(), 1, models.Profile{Nickname: "Ann"}); err != nil {
			t.Fatal(err)
		}
		service.Profiles(t.Context(), []models.UserID{1, 2})
		if err := env.SQL.Close(); err != nil {
			t.Fatal(err)
		}
		if got := service.Profiles(t.Context(), []models.UserID{1, 2, 3}); got[0].Nickname != "Ann" || got[1] != (models.Profile{}) || got[2] != (models.Profile{}) {
			t.Errorf("profiles %v", got)
		}
		if err := service.Put(t.Context(), 1, models.Profile{Nickname: "Bea"}); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("put: %v", err)
		}
	})
}

func TestProfileRules(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	service := directory.New(directory.NewStore(env.Gorm), env.Log)
	defer service.Close()
	tests := []struct {
		name    string
		profile models.Profile
		ok      bool
	}{
		{"a plain name", models.Profile{Nickname: "Ann"}, true},
		{"64 characters of 4 bytes", models.Profile{Nickname: strings.Repeat("🏃", 64)}, true},
		{"markup and right-to-left text", models.Profile{Nickname: "<script>\u202eשלום"}, true},
		{"an avatar", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a.png?x=1"}, true},
		{"no name", models.Profile{}, false},
		{"only spaces", models.Profile{Nickname: "  "}, false},
		{"65 characters", models.Profile{Nickname: strings.Repeat("a", 65)}, false},
		{"a control character", models.Profile{Nickname: "a\x00b"}, false},
		{"a line break", models.Profile{Nickname: "a\nb"}, false},
		{"no UTF-8", models.Profile{Nickname: "a\xff"}, false},
		{"an avatar of another scheme", models.Profile{Nickname: "Ann", AvatarURL: "javascript:alert(1)"}, false},
		{"an avatar without a host", models.Profile{Nickname: "Ann", AvatarURL: "https:///a.png"}, false},
		{"an avatar too long", models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/" + strings.Repeat("a", 2048)}, false},
	}
	for _, tt := range tests {
		err := service.Put(t.Context(), 1, tt.profile)
		if tt.ok != (err == nil) || (err != nil && models.CodeOf(err) != models.CodeValidationFailed) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Concurrent imports of the same users don't deadlock. They would if each created
// the users in an order of its own.
func TestConcurrentCreates(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	service := directory.New(directory.NewStore(env.Gorm), env.Log)
	defer service.Close()
	const writers, each = 4, 400
	for round := range 5 {
		var wg sync.WaitGroup
		for range writers {
			profiles := make(map[models.UserID]models.Profile)
			for i := range each {
				profiles[models.UserID(round*each+i+1)] = models.Profile{}
			}
			wg.Go(func() {
				if err := service.Create(t.Context(), profiles); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
