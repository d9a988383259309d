package archive

import (
	"context"

	"stepboard/models"
)

// Erase gives the archived scores of a user who was erased fresh row ids, which nobody has,
// another one for each bucket, so that they do not lead to each other. Scores and times
// stay. Entries that are equal in both are ranked anew, because the row id decides among
// them. It returns how many scores these were, plus the number of runs that may store more
// of them: those which began to store before this process's call. It may be repeated. In
// Postgres a transaction of eleven statements for each 100 buckets; after each it rests for
// as long as that took.
func (s *Service) Erase(ctx context.Context, user models.RowID) (changed int64, err error) {
	// A run that begins to store from now on leaves the user out.
	underWay, err := s.store.storage.runsUnderWay(ctx)
	if err != nil {
		return 0, err
	}
	rows, err := s.store.storage.erase(ctx, user, s.store.newNobody)
	return underWay + rows, err
}

// ExportSections returns what an export has of a user's archived scores in a kind of database.
// Postgres looks each day up in the primary key.
func ExportSections(dialect string) []models.ExportSection {
	query := `SELECT b.board, b.day AS date, b.score, b.reached_at, b.rank FROM archived_scores b WHERE b.user_id = ?`
	if dialect == "postgres" {
		query = `
			SELECT b.board, b.day AS date, a.score, a.reached_at, a.rank FROM board_buckets b
			CROSS JOIN LATERAL (
				SELECT * FROM archived_scores s WHERE s.day = b.day AND s.user_id = ? AND s.board = b.board OFFSET 0
			) AS a`
	}
	return []models.ExportSection{{Name: "archived_scores", Key: []string{"b.day", "b.board"}, Query: query}}
}
