package erasure

import (
	"context"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
)

// storedScore is a score on a board in an export.
type storedScore struct {
	Board     string           `json:"board"`
	Date      string           `json:"date"`
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
	// Kept says where it is: on the board, among what is kept apart because of a
	// correction, or among updates that came late.
	Kept string `json:"kept"`
}

// Scores returns what boards have of days that are not archived. It is here because Guard looks
// after the same buckets.
func Scores(store *Store, entries board.Corrector, clock models.Clock) models.Subject {
	erase := func(ctx context.Context, user models.RowID) (int64, error) {
		buckets, err := store.hotBuckets(ctx, clock().UTC())
		if err != nil {
			return 0, err
		}
		return entries.Remove(ctx, buckets, []models.RowID{user})
	}
	export := func(ctx context.Context, user models.RowID, fn func(item any) error) error {
		buckets, err := store.hotBuckets(ctx, clock().UTC())
		if err != nil {
			return err
		}
		stored, err := entries.Stored(ctx, buckets, user)
		if err != nil {
			return err
		}
		for _, e := range stored {
			points, at := score.Of(e.Bucket).Decode(e.Composite)
			if err := fn(storedScore{e.Bucket.Board, e.Bucket.Day.String(), e.Bucket.Score(points), at, string(e.Key)}); err != nil {
				return err
			}
		}
		return nil
	}
	return models.Subject{
		Name: "scores", Tables: []string{"hot_batches", "hot_scores"}, Keys: []string{"Board", "BoardHour", "Late", "Reported"}, Erase: erase,
		Export: []models.ExportSection{{Name: "current_scores", Each: export}},
	}
}
