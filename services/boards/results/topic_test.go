package results_test

import (
	"context"
	"encoding/json"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/results"
)

// mixed has users 1 to 3: the second hides from everybody, and the third was erased.
type mixed struct{}

func (mixed) RecordsMany(_ context.Context, rows []models.RowID) ([]models.PublicRecord, error) {
	records := make([]models.PublicRecord, len(rows))
	for i, row := range rows {
		if row < 3 {
			records[i] = models.PublicRecord{User: testenv.ID(row), Nickname: "name", Hidden: row == 2}
		}
	}
	return records, nil
}

// A result names nobody who hides or was erased when it is sent.
func TestFinal(t *testing.T) {
	t.Parallel()
	date := testenv.Bucket(1).Day.String()
	final := results.Final{Board: "steps", Kind: models.KindDaily, Date: &date, Revision: 1, Total: 3, ScoreSum: 60}
	for n := range 3 {
		entry := results.TopEntry{User: models.RowID(n + 1), Score: int64(30 - 10*n), ReachedAt: models.TimestampOf(testenv.Noon)}
		final.Top = append(final.Top, entry)
	}
	data, err := results.Topic(mixed{}).Render(t.Context(), string(testenv.Must(json.Marshal(final))))
	if err != nil {
		t.Fatal(err)
	}
	const at = `"reached_at":"2026-11-20T13:00:00.000Z"`
	want := `{"board":"steps","kind":"daily","date":"2026-11-20","revision":1,"total":3,"score_sum":60,"top":[` +
		`{"rank":1,"user_id":"1","nickname":"name","avatar_url":"","score":30,` + at + `},` +
		`{"rank":2,"user_id":null,"nickname":"","avatar_url":"","anonymous":true,"score":20,` + at + `},` +
		`{"rank":3,"user_id":null,"nickname":"","avatar_url":"","anonymous":true,"score":10,` + at + `}]}`
	if got := string(testenv.Must(json.Marshal(data))); got != want {
		t.Fatalf("a webhook has %s, want %s", got, want)
	}
}
