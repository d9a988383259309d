// Package visible holds the SQL conditions that decide whose scores a person is shown. Both
// databases understand them.
//
// They are written so that Postgres looks up each row by an index, whatever it knows or does
// not know about the tables. NOT EXISTS, which it may turn into a join, lets it read everybody
// who hides, for each ranking.
package visible

// NotHidden is the condition that the user in a column does not hide from everybody.
func NotHidden(column string) string {
	return `(SELECT h.user_id FROM users h WHERE h.user_id = ` + column + ` AND h.hidden) IS NULL`
}

// Exists is NotHidden that also leaves out a user who was erased. It costs a little more.
func Exists(column string) string {
	return `(SELECT NOT h.hidden FROM users h WHERE h.user_id = ` + column + `)`
}

// Wanted is the condition that a viewer, its parameter, has neither muted nor blocked the user in a
// column, who was not erased either.
func Wanted(column string) string {
	return Exists(column) + ` IS NOT NULL AND ` + column +
		` NOT IN (SELECT c.other_id FROM privacy_choices c WHERE c.user_id = ? AND c.kind IN ('muted', 'blocked'))`
}

// ToViewer is the condition that no choice, of the user in a column or of a viewer, hides the
// one from the other. Its parameter is the viewer, for whom the view is read once.
func ToViewer(column string) string {
	return column + ` NOT IN (SELECT n.user_id FROM not_shown n WHERE n.viewer_id = ?)`
}
