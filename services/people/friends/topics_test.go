package friends_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/platform/outcomes"
)

// sevenErased has the records of users, of whom 7 was erased.
type sevenErased struct{ testenv.Numbers }

func (r sevenErased) RecordsMany(ctx context.Context, users []models.RowID) ([]models.PublicRecord, error) {
	records, err := r.Numbers.RecordsMany(ctx, users)
	for i, user := range users {
		if err == nil && user == 7 {
			records[i] = models.PublicRecord{}
		}
	}
	return records, err
}

// Webhooks of friend requests name both users as they are called now, and nobody who was erased.
func TestWebhooksOfRequests(t *testing.T) {
	t.Parallel()
	for _, topic := range friends.Topics(sevenErased{}, nil) {
		data := testenv.Must(topic.Render(t.Context(), `{"from":2,"to":1}`))
		const want = `{"from":"2","to":"1"}`
		if got := string(testenv.Must(json.Marshal(data))); got != want {
			t.Errorf("a webhook has %s, want %s", got, want)
		}
		if _, err := topic.Render(t.Context(), `{"from":2,"to":7}`); !errors.Is(err, outcomes.ErrErased) {
			t.Errorf("a request to somebody erased: %v", err)
		}
		for user, named := range map[models.RowID]bool{1: true, 2: true, 3: false} {
			without, has, err := topic.Without(`{"from":2,"to":1}`, user)
			if err != nil || has != named || named && without != "" {
				t.Errorf("without %d: %q, %v, %v", user, without, has, err)
			}
		}
	}
}

// A notice of a request names who has asked, as long as the other is shown the request.
func TestNoticesOfRequests(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		testenv.NumberUsers(t, env, 3)
		for _, from := range []models.RowID{2, 3} {
			request := models.FriendRequest{UserID: 1, OtherID: from, Incoming: true, CreatedAt: env.Clock.Now()}
			if from == 3 {
				request.DeclinedAt = &request.CreatedAt
			}
			if err := env.Gorm.Create(&request).Error; err != nil {
				t.Fatal(err)
			}
		}
		topic := friends.Topics(sevenErased{}, friends.NewStore(env.Gorm, nil))[0]
		for payload, want := range map[string]error{
			`{"from":2,"to":1}`: nil, `{"from":3,"to":1}`: outcomes.ErrHidden, `{"from":1,"to":2}`: outcomes.ErrHidden, `{"from":7,"to":1}`: outcomes.ErrErased,
		} {
			notice, err := topic.Notice(t.Context(), payload)
			const text = `{"type":"friend.requested","board":"","date":"","people":[{"user_id":"2","nickname":""}],"rank":0,"total":0,"score":0,"url":"#/friends"}`
			if got := string(testenv.Must(json.Marshal(notice))); !errors.Is(err, want) || err == nil && got != text {
				t.Errorf("%s: %s, %v, want %v", payload, got, err, want)
			}
		}
	})
}
