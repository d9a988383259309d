package archive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
)

// Erase gives the archived scores of a user who was erased fresh row ids, which nobody has,
// another one for each bucket, so that they do not lead to each other. Scores and times
// stay. Entries that are equal in both are ranked anew, because the row id decides among
// them. It returns how many scores these were, plus the number of runs that may store more
// of them: those which began to store before this process's call, and on SQLite also those that
// were cut off. It may be repeated. In Postgres a transaction of eleven statements for each eraseBuckets
// buckets, on SQLite one of ten for each bucket, which takes longer the more entries are equal to
// the user's; after each it pauses for as long as that took.
func (s *Service) Erase(ctx context.Context, user models.RowID) (changed int64, err error) {
	storage := s.store.storage
	// A run that begins to store from now on leaves the user out.
	if changed, err = storage.runsUnderWay(ctx); err != nil {
		return 0, err
	}
	buckets, err := storage.toErase(ctx, user)
	if err != nil {
		return changed, fmt.Errorf("find archived scores: %w", err)
	}
	for chunk := range slices.Chunk(buckets, s.store.eraseBuckets) {
		began := time.Now()
		if err := storage.eraseIn(ctx, user, chunk, s.store.newNobody); err != nil {
			return changed, fmt.Errorf("erase archived scores: %w", err)
		}
		changed += int64(len(chunk))
		failpoint.Hit("erasure.archive")
		if err := pause.After(ctx, began, 1); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// Subject returns what is stored of archived scores.
func (s *Service) Subject() models.Subject {
	return models.Subject{
		Name: "archive", Tables: []string{"archived_scores", "archived_ranks"}, AfterCorrections: true, Erase: s.Erase,
		Export: []models.ExportSection{{Name: "archived_scores", Key: []string{"b.day", "b.board"}, Points: []string{"score"}, Query: s.store.storage.exportQuery()}},
	}
}
