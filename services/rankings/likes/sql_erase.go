package likes

import (
	"stepboard/internal/visible"
	"stepboard/models"
)

// ExportSections returns what an export has of a user's likes. Of those received it has the
// likes of people whom the user is shown.
func ExportSections() []models.ExportSection {
	return []models.ExportSection{
		{Name: "likes_given", Key: []string{"l.day", "l.board", "l.user_id"}, Query: `
			SELECT u.external_id AS user_id, l.board, l.day AS date, l.created_at, l.withdrawn
			FROM likes l JOIN users u ON u.user_id = l.user_id WHERE l.liked_by = ?`},
		{Name: "likes_received", Key: []string{"l.day", "l.board", "l.liked_by"}, Query: `
			SELECT u.external_id AS user_id, l.board, l.day AS date, l.created_at
			FROM likes l JOIN users u ON u.user_id = l.liked_by
			WHERE l.user_id = ? AND NOT l.withdrawn AND NOT u.hidden AND ` + visible.ToViewer("l.liked_by")},
	}
}
