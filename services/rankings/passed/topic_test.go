package passed

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/outcomes"
)

// payloadBy returns a notice to user 1, which may be sent until a moment.
func payloadBy(until time.Time, by string) string {
	return fmt.Sprintf(`{"board":"steps","date":"2026-11-20","user":1,"rank":3,"was":1,"total":5,"score":70,"by":[%s],"until":%d}`, by, until.UnixMilli())
}

// A notice names nobody who hides by the time when it is sent, whoever decided that. It is dropped if
// nobody is left, or if it is too late.
func TestWhatIsToldOfANotice(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		testenv.NumberUsers(t, env, 4)
		testenv.Hide(t, env, 2, 1, 3)
		topic := Topic(NewRender(testenv.Numbers{DB: env.Gorm}, privacy.NewStore(env.Gorm), env.Clock.Now))
		soon := testenv.Noon.Add(time.Millisecond)
		for _, tt := range []struct {
			until time.Time
			by    string
			err   error
			told  string
		}{
			{soon, "2,3,4", nil, `[{"user_id":"4","nickname":""}]`},
			{soon, "2,3", outcomes.ErrHidden, ""},
			{testenv.Noon, "4", outcomes.ErrOver, ""},
		} {
			data, err := topic.Render(t.Context(), payloadBy(tt.until, tt.by))
			if !errors.Is(err, tt.err) {
				t.Errorf("passed by %s: %v, want %v", tt.by, err, tt.err)
			}
			want := `{"board":"steps","date":"2026-11-20","user_id":"1","rank":3,"was":1,"passed_by":` + tt.told + `}`
			if got := string(testenv.Must(json.Marshal(data))); err == nil && got != want {
				t.Errorf("a webhook has %s, want %s", got, want)
			}
		}
	})
}

func TestNoticesWithoutAUser(t *testing.T) {
	t.Parallel()
	topic := Topic(nil)
	for user, want := range map[models.RowID]struct {
		without string
		named   bool
	}{
		1: {"", true},
		2: {payloadBy(testenv.Noon, "3"), true},
		4: {"", false},
	} {
		without, named, err := topic.Without(payloadBy(testenv.Noon, "2,3"), user)
		if err != nil || without != want.without || named != want.named {
			t.Errorf("user %d: %q, %v, %v", user, without, named, err)
		}
	}
	if without, named, err := topic.Without(payloadBy(testenv.Noon, "2"), 2); without != "" || !named || err != nil {
		t.Errorf("a notice of one who passed: %q, %v, %v", without, named, err)
	}
}
