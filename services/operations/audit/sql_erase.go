package audit

import "stepboard/models"

// EraseQuery removes a user who was erased from what operators have done about them, with the
// texts that may name them. That something was done stays, by whom and when; of the erasure
// itself also why.
const EraseQuery = `UPDATE audit_log SET user_id = NULL, target = '',
	reason = CASE WHEN action = '` + models.EraseAction + `' THEN reason ELSE '' END WHERE user_id = ?`

// ExportSections returns what an export has of what operators have done about a user.
func ExportSections() []models.ExportSection {
	return []models.ExportSection{{Name: "operator_actions", Key: []string{"id"}, Query: `
		SELECT at, action, board, bucket, target, reason, outcome FROM audit_log WHERE user_id = ?`}}
}
