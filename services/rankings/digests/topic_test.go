package digests

import (
	"encoding/json"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/privacy"
)

func TestDigestsWithoutAUser(t *testing.T) {
	t.Parallel()
	const payload = `{"board":"steps","date":"2026-11-20","users":[` +
		`{"user":1,"rank":1,"total":2,"score":900,"leader":1,"likes":0},` +
		`{"user":2,"rank":2,"total":2,"score":800,"leader":1,"likes":3}]}`
	topic := Topic(testenv.Numbers{}, nil)
	for user, want := range map[models.RowID]struct {
		without string
		named   bool
	}{
		1: {`{"board":"steps","date":"2026-11-20","users":[{"user":2,"rank":2,"total":2,"score":800,"leader":0,"likes":3}]}`, true},
		2: {`{"board":"steps","date":"2026-11-20","users":[{"user":1,"rank":1,"total":2,"score":900,"leader":1,"likes":0}]}`, true},
		3: {"", false},
	} {
		without, named, err := topic.Without(payload, user)
		if err != nil || without != want.without || named != want.named {
			t.Errorf("user %d: %q, %v, %v", user, without, named, err)
		}
	}
	const alone = `{"board":"steps","date":"2026-11-20","users":[{"user":1,"rank":1,"total":1,"score":900,"leader":1,"likes":0}]}`
	without, named, err := topic.Without(alone, 1)
	if without != "" || !named || err != nil {
		t.Errorf("a digest of one user: %q, %v, %v", without, named, err)
	}
}

// A digest names no leader who hides by the time when it is sent, whoever decided that. It names
// everybody to themselves.
func TestHiddenLeaders(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		testenv.NumberUsers(t, env, 5)
		testenv.Hide(t, env, 2, 1, 3)
		data, err := Topic(testenv.Numbers{DB: env.Gorm}, privacy.NewStore(env.Gorm)).Render(t.Context(), `{"board":"steps","date":"2026-11-20","users":[`+
			`{"user":1,"leader":2},{"user":1,"leader":3},{"user":5,"leader":2},{"user":2,"leader":2}]}`)
		if err != nil {
			t.Fatal(err)
		}
		const none = `"rank":0,"total":0,"score":0,"leader":null,"likes":0}`
		const two = `"rank":0,"total":0,"score":0,"leader":{"user_id":"2","nickname":""},"likes":0}`
		want := `{"board":"steps","date":"2026-11-20","users":[` +
			`{"user_id":"1",` + none + `,{"user_id":"1",` + none + `,{"user_id":"5",` + two + `,{"user_id":"2",` + two + `]}`
		if got := string(testenv.Must(json.Marshal(data))); got != want {
			t.Errorf("a webhook has %s, want %s", got, want)
		}
	})
}

// A notice is about one line, and names no leader who hides by the time when it is sent, nor the user.
func TestNotices(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		testenv.NumberUsers(t, env, 5)
		testenv.Hide(t, env, 2, 1, 3)
		topic := Topic(testenv.Numbers{DB: env.Gorm}, privacy.NewStore(env.Gorm))
		all := payload{"steps", "2026-11-20", []models.DigestLine{
			{User: 1, Rank: 2, Total: 3, Score: 900, Leader: 2}, {User: 5, Rank: 2, Total: 2, Score: 800, Leader: 2}, {User: 4, Rank: 1, Total: 1, Score: 700, Leader: 4},
		}}
		want := map[models.RowID]string{
			1: `[],"rank":2,"total":3,"score":900`, 5: `[{"user_id":"2","nickname":""}],"rank":2,"total":2,"score":800`, 4: `[],"rank":1,"total":1,"score":700`,
		}
		for user, one := range all.Receivers() {
			notice, err := topic.Notice(t.Context(), string(testenv.Must(json.Marshal(one))))
			text := `{"type":"digest.ready","board":"steps","date":"2026-11-20","people":` + want[user] + `,"url":"#/day/2026-11-20"}`
			if got := string(testenv.Must(json.Marshal(notice))); err != nil || got != text {
				t.Errorf("a notice has %s, %v, want %s", got, err, text)
			}
			delete(want, user)
		}
		if len(want) > 0 {
			t.Errorf("nobody tells %v", want)
		}
	})
}
