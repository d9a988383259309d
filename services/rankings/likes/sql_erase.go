package likes

import (
	"context"

	"stepboard/internal/visible"
	"stepboard/models"
)

// Erase removes the likes that a user who was erased has given and received, and returns their
// number. It may be repeated.
func (s *Store) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	return s.delete(ctx, "user_id = ? OR liked_by = ?", user, user)
}

// Subject returns what is stored of likes. Of those received an export has the likes of people whom
// the user is shown.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "likes", Tables: []string{"likes"}, Erase: s.Erase,
		Export: []models.ExportSection{
			{Name: "likes_given", Key: []string{"l.day", "l.board", "l.user_id"}, Query: `
			SELECT u.external_id AS user_id, l.board, l.day AS date, l.created_at, l.withdrawn
			FROM likes l JOIN users u ON u.user_id = l.user_id WHERE l.liked_by = ?`},
			{Name: "likes_received", Key: []string{"l.day", "l.board", "l.liked_by"}, Query: `
			SELECT u.external_id AS user_id, l.board, l.day AS date, l.created_at
			FROM likes l JOIN users u ON u.user_id = l.liked_by
			WHERE l.user_id = ? AND NOT l.withdrawn AND NOT u.hidden AND ` + visible.ToViewer("l.liked_by")},
		},
	}
}
