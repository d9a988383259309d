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
	for _, topic := range friends.Topics(sevenErased{}) {
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
