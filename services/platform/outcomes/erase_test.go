package outcomes

import (
	"testing"

	"stepboard/models"
)

func TestDigestsWithoutAUser(t *testing.T) {
	t.Parallel()
	const payload = `{"board":"steps","date":"2026-11-20","users":[` +
		`{"user":1,"rank":1,"total":2,"score":900,"leader":1,"likes":0},` +
		`{"user":2,"rank":2,"total":2,"score":800,"leader":1,"likes":3}]}`
	for user, want := range map[models.RowID]struct {
		without string
		named   bool
	}{
		1: {`{"board":"steps","date":"2026-11-20","users":[{"user":2,"rank":2,"total":2,"score":800,"leader":0,"likes":3}]}`, true},
		2: {`{"board":"steps","date":"2026-11-20","users":[{"user":1,"rank":1,"total":2,"score":900,"leader":1,"likes":0}]}`, true},
		3: {"", false},
	} {
		without, named, err := withoutUser(&models.Delivery{Type: models.OutcomeDigestReady, Payload: payload}, user)
		if err != nil || without != want.without || named != want.named {
			t.Errorf("user %d: %q, %v, %v", user, without, named, err)
		}
	}
	const alone = `{"board":"steps","date":"2026-11-20","users":[{"user":1,"rank":1,"total":1,"score":900,"leader":1,"likes":0}]}`
	without, named, err := withoutUser(&models.Delivery{Type: models.OutcomeDigestReady, Payload: alone}, 1)
	if without != "" || !named || err != nil {
		t.Errorf("a digest of one user: %q, %v, %v", without, named, err)
	}
}
