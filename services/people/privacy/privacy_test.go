package privacy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A list has each person once, with the name of those whose profile the user could see
// when they were put on it, and is read in pages.
func TestLists(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p, ctx := newProcess(env), t.Context()
		exist(t, env, 1, 2, 3, 4, 5)
		for row := models.RowID(1); row <= 5; row++ {
			env.Gorm.Table("users").Where("user_id = ?", row).Update("nickname", fmt.Sprintf("n%d", row))
		}
		if err := p.befriend(ctx, models.Edge{A: 1, B: 2}); err != nil { // 2 is a friend
			t.Fatal(err)
		}
		if _, _, err := p.friends.SendRequest(ctx, "3", "1"); err != nil { // 3 has asked
			t.Fatal(err)
		}
		if _, _, err := p.friends.SendRequest(ctx, "1", "4"); err != nil { // 4 was asked
			t.Fatal(err)
		}
		for _, kind := range []models.ChoiceKind{models.HiddenFrom, models.Muted, models.Blocked} {
			for _, other := range []models.UserID{"5", "3", "4", "2", "3"} {
				if err := p.Choose(ctx, "1", kind, other); err != nil {
					t.Fatal(err)
				}
				env.Clock.Advance(time.Second)
			}
			var got []string
			after := models.RowID(0)
			for {
				page, err := p.List(ctx, "1", kind, after, 3)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				for _, c := range page {
					got = append(got, fmt.Sprintf("%s %s", c.User, c.Nickname))
				}
				after = page[len(page)-1].Row
			}
			if want := []string{"2 n2", "3 n3", "4 ", "5 "}; !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", kind, got, want)
			}
			if err := p.Undo(ctx, "1", kind, "3"); err != nil {
				t.Fatal(err)
			}
			if page, err := p.List(ctx, "1", kind, 2, 1); err != nil || len(page) != 1 || page[0].User != "4" {
				t.Errorf("%s without 3: %v, %v", kind, page, err)
			}
		}
		if page, err := p.List(ctx, "2", models.Blocked, 0, 10); err != nil || len(page) != 0 {
			t.Errorf("the other's list: %v, %v", page, err)
		}
	})
}

// A list shows the name that somebody had when the choice was made, and not a later one, unless
// the two are friends: somebody who has blocked the user in return may not want to be found.
func TestLaterNamesAreNotListed(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p, ctx := newProcess(env), t.Context()
		exist(t, env, 1, 2, 3)
		rename := func(name string) {
			env.Gorm.Exec("UPDATE users SET nickname = ?, avatar_url = ?", name, "https://x.example/"+name)
		}
		rename("before")
		if err := p.befriend(ctx, models.Edge{A: 1, B: 2}, models.Edge{A: 1, B: 3}); err != nil {
			t.Fatal(err)
		}
		for _, other := range []models.UserID{"2", "3"} {
			if err := p.Choose(ctx, "1", models.Muted, other); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Choose(ctx, "2", models.Blocked, "1"); err != nil { // this ends the friendship
			t.Fatal(err)
		}
		rename("after")
		page, err := p.List(ctx, "1", models.Muted, 0, 10)
		if err != nil || len(page) != 2 || page[0].Nickname != "before" || page[0].AvatarURL != "https://x.example/before" || page[1].Nickname != "after" {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

// Hiding costs Redis some commands for each stripe, however many friends have a list to change,
// and none if it changes nothing.
func TestHidingIsCheap(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p, ctx := newProcess(env), t.Context()
	var edges []models.Edge
	for friend := range models.RowID(models.MaxFriends) {
		edges = append(edges, models.Edge{A: 1, B: friend + 2})
	}
	testenv.NumberUsers(t, env, models.MaxFriends+1)
	if err := p.befriend(ctx, edges...); err != nil {
		t.Fatal(err)
	}
	counter := &testenv.RoundTrips{}
	env.Redis.AddHook(counter)
	for _, most := range []int{10 * keys.Stripes, 0} {
		before := counter.Commands()
		if err := p.SetHidden(ctx, "1", true); err != nil {
			t.Fatal(err)
		}
		if n := counter.Commands() - before; n > most {
			t.Errorf("%d commands", n)
		}
	}
	if shown := p.shown(t, 2); len(shown) > 0 {
		t.Errorf("friends are shown %v", shown)
	}
}

// Somebody may begin and end to hide so often in an hour. Repeating it is no change.
func TestHidingsAreLimited(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newProcessWith(env, 3)
		exist(t, env, 1)
		set := func(hidden bool) error { return p.SetHidden(t.Context(), "1", hidden) }
		for n, hidden := range []bool{true, true, false, true, true, true} {
			if err := set(hidden); err != nil {
				t.Errorf("call %d: %v", n, err)
			}
		}
		err := set(false)
		var refused *models.Error
		if !errors.As(err, &refused) || refused.Code != models.CodeRateLimited || refused.Wait != time.Hour {
			t.Errorf("a fourth change: %v", err)
		}
		if hidden, err := p.Hidden(t.Context(), "1"); err != nil || !hidden {
			t.Errorf("hidden %t, %v", hidden, err)
		}
		env.Clock.Advance(time.Hour)
		if err := set(false); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}

// Hiding and its count are one change of the user's row.
func TestHidingUpdatesTheUserOnce(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newProcess(env)
		exist(t, env, 1)
		updates := 0
		count := func(db *gorm.DB) {
			if strings.HasPrefix(strings.ReplaceAll(db.Statement.SQL.String(), `"`, ""), "UPDATE users ") {
				updates++
			}
		}
		callbacks := env.Gorm.Callback()
		for _, err := range []error{callbacks.Raw().Register("count", count), callbacks.Update().Register("count", count)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for n, hidden := range []bool{true, true, false} {
			if err := p.SetHidden(t.Context(), "1", hidden); err != nil {
				t.Fatal(err)
			}
			if want := []int{1, 1, 2}[n]; updates != want {
				t.Errorf("call %d: %d updates, want %d", n, updates, want)
			}
		}
	})
}

func TestRefusedChoices(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p, ctx := newProcess(env), t.Context()
		exist(t, env, 1, 2)
		if err := p.Choose(ctx, "1", models.Muted, "1"); models.CodeOf(err) != models.CodeValidationFailed {
			t.Errorf("oneself: %v", err)
		}
		if err := p.Choose(ctx, "1", models.Muted, "99"); models.CodeOf(err) != models.CodeUserNotFound {
			t.Errorf("nobody: %v", err)
		}
		if err := p.Undo(ctx, "1", models.Muted, "99"); err != nil {
			t.Errorf("undo for nobody: %v", err)
		}
		if page, err := p.List(ctx, "99", models.Muted, 0, 10); err != nil || len(page) != 0 {
			t.Errorf("the list of nobody: %v, %v", page, err)
		}
		if hidden, err := p.Hidden(ctx, "99"); err != nil || hidden {
			t.Errorf("nobody hides: %v, %v", hidden, err)
		}
		if err := p.Choose(ctx, "77", models.Muted, "1"); err != nil { // a first write
			t.Errorf("a new user: %v", err)
		}
		choices := make([]models.PrivacyChoice, models.MaxChoices)
		for i := range choices {
			choices[i] = models.PrivacyChoice{UserID: 1, Kind: models.Muted, OtherID: models.RowID(1000 + i)}
		}
		if err := env.Gorm.CreateInBatches(choices, 200).Error; err != nil {
			t.Fatal(err)
		}
		if err := p.Choose(ctx, "1", models.Muted, "2"); models.CodeOf(err) != models.CodeChoiceLimit {
			t.Errorf("one too many: %v", err)
		}
		if err := p.Choose(ctx, "1", models.Blocked, "2"); err != nil {
			t.Errorf("another list: %v", err)
		}
		exist(t, env, 1000)
		if err := p.Choose(ctx, "1", models.Muted, "1000"); err != nil {
			t.Errorf("one that is on the full list: %v", err)
		}
	})
}

// Hiding begins while a friendship begins and the new friend reads the friend set all the
// time. Whatever the order, the friend is not shown the hidden person afterwards.
func TestHidingRacesWithBefriending(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p, other := newProcess(env), newProcess(env)
	for round := range 150 {
		hidden, friend := models.RowID(10*round+1), models.RowID(10*round+2)
		exist(t, env, hidden, friend)
		var changes, readers sync.WaitGroup
		done := make(chan struct{})
		for range 2 {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if _, err := p.friends.IDs(t.Context(), friend); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		changes.Go(func() {
			if err := p.SetHidden(t.Context(), testenv.ID(hidden), true); err != nil {
				t.Error(err)
			}
		})
		changes.Go(func() {
			if err := other.befriend(t.Context(), models.Edge{A: hidden, B: friend}); err != nil {
				t.Error(err)
			}
		})
		testenv.Wait(t, "the changes end", &changes)
		got := other.shown(t, friend)
		close(done)
		testenv.Wait(t, "the readers end", &readers)
		if len(got) != 0 {
			t.Fatalf("round %d: the friend is shown %v", round, got)
		}
	}
}
