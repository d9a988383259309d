package ingest

import (
	"context"
	"fmt"

	"stepboard/models"
)

// eraseLetters is how many dead letters one query reads.
const eraseLetters = 1000

// each calls fn with each dead letter that is an update of a user, and the update. It reads
// all dead letters: one query for each eraseLetters.
func (s *DeadLetterStore) each(ctx context.Context, user models.RowID, fn func(id int64, u Update) error) error {
	for last := int64(0); ; {
		var page []models.DeadLetter
		err := s.db.WithContext(ctx).Select("id", "payload").Where("id > ?", last).Order("id").Limit(eraseLetters).Find(&page).Error
		if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		for _, letter := range page {
			last = letter.ID
			u, err := DecodeUpdate(letter.Payload)
			if err != nil || u.User != user {
				continue // what can't be decoded names nobody
			}
			if err := fn(letter.ID, u); err != nil {
				return err
			}
		}
		if len(page) < eraseLetters {
			return nil
		}
	}
}

// Erase deletes the dead letters that are updates of a user who was erased, and returns how
// many these were. It may be repeated.
func (s *DeadLetterStore) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	var ids []int64
	err = s.each(ctx, user, func(id int64, _ Update) error {
		ids = append(ids, id)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	result := s.db.WithContext(ctx).Delete(&models.DeadLetter{}, "id IN ?", ids)
	return result.RowsAffected, models.Wrap("delete dead letters", result.Error)
}

// Subject returns what is stored of updates that could not be applied.
func (s *DeadLetterStore) Subject() models.Subject {
	export := func(ctx context.Context, user models.RowID, fn func(item any) error) error {
		return s.each(ctx, user, func(_ int64, u Update) error {
			return fn(map[string]any{"board": u.Board, "bucket": u.Bucket, "score": u.Score, "reached_at": u.ReachedAt})
		})
	}
	return models.Subject{
		Name: "dead letters", Tables: []string{"dead_letters"}, Erase: s.Erase,
		Export: []models.ExportSection{{Name: "dead_letters", Each: export}},
	}
}
