package competitions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

// Erase makes the lines of a user who was erased nameless in final standings, and ends that they count in others.
// It may be repeated. One transaction for each competition.
func (s *Store) Erase(ctx context.Context, user models.RowID) (changed int64, err error) {
	var list []models.CompetitionRow
	err = s.db.WithContext(ctx).Raw(`SELECT DISTINCT competition_id FROM competition_members WHERE user_id = ?`, user).Scan(&list).Error
	if err != nil {
		return 0, fmt.Errorf("list competitions: %w", err)
	}
	for _, c := range list {
		err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			n, err := eraseIn(tx, c, user)
			changed += n
			return err
		})
		if err != nil {
			return changed, models.Wrap("erase from a competition", err)
		}
		failpoint.Hit("competitions.erased")
	}
	return changed, nil
}

// eraseIn is Erase in one competition.
func eraseIn(tx *gorm.DB, c models.CompetitionRow, user models.RowID) (changed int64, err error) {
	err = tx.Exec(`UPDATE competitions SET name = name WHERE competition_id = ?`, c).Error // it locks the row
	if err != nil {
		return 0, err
	}
	var rows []stored
	if err := tx.Where("competition_id = ?", c).Find(&rows).Error; err != nil {
		return 0, err
	}
	for _, row := range rows {
		var b body
		if err := json.Unmarshal(row.Body, &b); err != nil {
			return changed, err
		}
		if !b.erase(user) {
			continue
		}
		if row.Revision == 0 {
			b.Lines = slices.DeleteFunc(b.Lines, func(l line) bool { return l.User == 0 })
		}
		changed++
		if row.Body, err = json.Marshal(&b); err != nil {
			return changed, err
		}
		err = tx.Exec(`UPDATE standings SET body = ? WHERE competition_id = ? AND revision = ?`, row.Body, c, row.Revision).Error
		if err != nil {
			return changed, err
		}
	}
	result := tx.Exec(`DELETE FROM competition_members WHERE competition_id = ? AND user_id = ?`, c, user)
	return changed + result.RowsAffected, result.Error
}

// Subject returns what is stored of who counts in competitions.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "competitions", Tables: []string{"competition_members", "standings"}, Erase: s.Erase,
		Export: []models.ExportSection{{Name: "competitions", Key: []string{"m.competition_id", "m.first_day"}, Query: `
		SELECT c.external_id AS competition_id, c.name, coalesce(g.external_id, '') AS group_id, m.first_day, m.last_day
		FROM competition_members m JOIN competitions c ON c.competition_id = m.competition_id
			LEFT JOIN groups g ON g.group_id = m.group_id
		WHERE m.user_id = ?`}},
	}
}
