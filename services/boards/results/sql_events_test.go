package results_test

import (
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/results"
	"stepboard/services/platform/outcomes"
)

// A result is read beside those who write a data folder. A correction that comes meanwhile is in it.
func TestAnEventIsCorrectedWhileItIsRead(t *testing.T) {
	t.Parallel()
	clock := testenv.NewClock(testenv.Noon)
	s := testenv.Must(stores.OpenFolder(t.Context(), t.TempDir(), clock.Now))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	bucket := testenv.Bucket(1)
	bucket.Board, bucket.Name, bucket.FromLedger, bucket.WindowHours = "gifts", "event", true, 0
	bucket.FinalAt = &bucket.EndsAt
	create := func(row any) {
		t.Helper()
		if err := s.Friends.Gorm.WithContext(t.Context()).Create(row).Error; err != nil {
			t.Error(err)
		}
	}
	create(bucket)
	for user := range models.RowID(3) {
		create(&models.ScoreTotal{Board: "gifts", User: user + 1, Total: "event", Score: 10 * int64(user+1), ReachedAt: testenv.Noon})
	}
	corrected := false
	err := s.Jobs.Gorm.Callback().Row().After("gorm:row").Register("correct", func(db *gorm.DB) {
		if !corrected && strings.Contains(db.Statement.SQL.String(), "score_totals") {
			corrected = true
			create(&models.Correction{Board: "gifts", Bucket: &bucket.Name, User: 3, Kind: models.CorrectionExclude, CreatedAt: testenv.Noon, Hot: true})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	clock.Set(bucket.EndsAt.Add(time.Minute))
	outbox := outcomes.NewOutbox([]outcomes.Target{{URL: "https://example.com"}}, clock.Now)
	if n, err := results.NewEvents(outbox, s.Jobs.Gorm, clock.Now).Announce(t.Context()); n != 1 || err != nil || !corrected {
		t.Errorf("announced %d, %v", n, err)
	}
	var got []string
	if err := s.Gorm.WithContext(t.Context()).Raw(`SELECT payload FROM webhook_deliveries`).Scan(&got).Error; err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !strings.Contains(got[0], `"revision":1,"total":2,"score_sum":30,`) {
		t.Errorf("results %s", got)
	}
}
