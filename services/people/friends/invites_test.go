package friends_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"stepboard/internal/codes"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/platform/outcomes"
	"stepboard/services/servicetest"
)

// tries counts tries of codes, and refuses those above a limit.
type tries struct{ made, limit int }

func (c *tries) TakeJoin(context.Context, models.UserID) error {
	if c.made++; c.made > c.limit {
		return models.Errorf(models.CodeRateLimited, "too often")
	}
	return nil
}

// A code makes friends of its user and whoever has it, any number of times, until it is renewed.
// Blocked people, strangers with a wrong code and the user themselves get nothing by it.
func TestFriendInvites(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		counted := &tries{limit: 1000}
		store := friends.NewStore(env.Gorm, outcomes.NewOutbox([]outcomes.Target{{URL: "https://example.com"}}, env.Clock.Now))
		sets := servicetest.Sets(env)
		s := numbered{friends.New(store, sets, testenv.Numbers{DB: env.Gorm},
			friends.Limits{Pending: 9, PerDay: 9, Joins: counted}, env.Log), sets}
		exist(t, env, 1, 2, 3, 4)
		ctx := t.Context()
		code := testenv.Must(s.Invite(ctx, "1"))
		if again := testenv.Must(s.Invite(ctx, "1")); again != code || len(code) != 16 {
			t.Errorf("the code is %q, and then %q", code, again)
		}
		look := func(user models.UserID, code string, want friends.Inviter) {
			t.Helper()
			if got, err := s.Inviter(ctx, user, code); err != nil || got != want {
				t.Errorf("%s is invited by %+v, %v, want %+v", user, got, err, want)
			}
		}
		refused := func(user models.UserID, code string, want models.Code) {
			t.Helper()
			if _, err := s.Join(ctx, user, code); models.CodeOf(err) != want {
				t.Errorf("%s joins by %q: %v, want %s", user, code, err, want)
			}
		}
		join := func(user models.UserID, code string) {
			t.Helper()
			if got, err := s.Join(ctx, user, code); err != nil || got.User != "1" || !got.Friends {
				t.Errorf("%s joins: %+v, %v", user, got, err)
			}
		}
		ann := friends.Inviter{Row: 1, User: "1", Nickname: "user 1"}
		look("2", code, ann)
		look("1", code, ann)
		refused("1", code, models.CodeValidationFailed)
		checkGraph(t, env, s, map[models.RowID][]models.RowID{1: {}, 2: {}})

		join("2", " "+strings.ToLower(code)+"\n")
		join("2", code)
		ann.Friends = true
		look("2", code, ann)
		checkGraph(t, env, s, map[models.RowID][]models.RowID{1: {2}, 2: {1}})

		// A request between the two is answered by the invitation.
		if _, _, err := s.SendRequest(ctx, 3, 1); err != nil {
			t.Fatal(err)
		}
		join("3", code)
		if open := testenv.Must(s.Requests(ctx, 1, models.Cursor{}, 9)); len(open) != 0 {
			t.Errorf("requests are left: %+v", open)
		}

		hiding := newPrivacy(env, s)
		for _, block := range [][2]models.UserID{{"1", "4"}, {"4", "1"}} {
			if err := hiding.Choose(ctx, block[0], models.Blocked, block[1]); err != nil {
				t.Fatal(err)
			}
			if renewed := testenv.Must(s.Invite(ctx, "1")); (renewed != code) != (block[0] == "1") {
				t.Errorf("%s blocks %s, and the code of 1 is renewed: %v", block[0], block[1], renewed != code)
			} else {
				code = renewed // the other does not know it, and may guess
			}
			if _, err := s.Join(ctx, "4", code); !errors.Is(err, codes.ErrNoCode) {
				t.Errorf("a blocked one joins: %v", err)
			}
			if _, err := s.Inviter(ctx, "4", code); !errors.Is(err, codes.ErrNoCode) {
				t.Errorf("a blocked one sees who invites: %v", err)
			}
			if err := hiding.Undo(ctx, block[0], models.Blocked, block[1]); err != nil {
				t.Fatal(err)
			}
		}

		// Hiding ends no contact, and looks the same as before.
		if err := hiding.Choose(ctx, "1", models.HiddenFrom, "4"); err != nil {
			t.Fatal(err)
		}
		look("4", code, friends.Inviter{Row: 1, User: "1", Nickname: "user 1"})
		if err := hiding.Undo(ctx, "1", models.HiddenFrom, "4"); err != nil {
			t.Fatal(err)
		}

		renewed := testenv.Must(s.RenewInvite(ctx, "1"))
		if renewed == code || testenv.Must(s.Invite(ctx, "1")) != renewed {
			t.Errorf("renewed, the code is %q", renewed)
		}
		if _, err := s.Inviter(ctx, "4", code); !errors.Is(err, codes.ErrNoCode) {
			t.Errorf("the code that was renewed shows who invites: %v", err)
		}
		refused("4", code, models.CodeNotFound)
		for _, wrong := range []string{"", "AAAABBBBCCCCDDDD", renewed + "A", "no code"} {
			refused("4", wrong, models.CodeNotFound)
		}
		join("4", renewed)
		checkGraph(t, env, s, map[models.RowID][]models.RowID{1: {2, 3, 4}, 2: {1}, 3: {1}, 4: {1}})

		counted.limit = 0
		refused("4", renewed, models.CodeRateLimited)
		if _, err := s.Inviter(ctx, "4", renewed); models.CodeOf(err) != models.CodeRateLimited {
			t.Errorf("a look above the limit: %v", err)
		}
	})
}

// Neither side gets more friends than anybody may have.
func TestFriendInvitesLimit(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := limited(env, servicetest.Sets(env), friends.Limits{Joins: &tries{limit: 9}})
	exist(t, env, 1, 2)
	code := testenv.Must(s.Invite(t.Context(), "1"))
	for _, full := range []models.RowID{1, 2} {
		set := func(count int) {
			if err := env.Gorm.Table("users").Where("user_id = ?", full).Update("friend_count", count).Error; err != nil {
				t.Fatal(err)
			}
		}
		set(models.MaxFriends)
		if _, err := s.Join(t.Context(), "2", code); models.CodeOf(err) != models.CodeFriendLimit {
			t.Errorf("user %v is full: %v", full, err)
		}
		set(0)
	}
}
