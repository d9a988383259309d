package simulation_test

import (
	"slices"
	"strings"

	"stepboard/models"
)

// keptKinds are the kinds of choices that hold again when the user id of the other returns.
var keptKinds = map[string]bool{"hidden_from": true, "blocked": true}

// keep notes what must hold again when the id of a user returns who is erased: what others have
// chosen and exclusions. The user's own choices are gone.
func (w *world) keep(e *erasure) {
	m := w.model
	for _, name := range sortedKeys(union(m.facts, m.kept)) {
		words := strings.Fields(name)
		switch {
		case !keptKinds[words[0]]:
		case words[1] == string(e.user):
			delete(m.kept, name)
			delete(m.perhaps, name)
		case words[2] == string(e.user):
			m.kept[name] = true
		}
	}
	for _, c := range m.corrections {
		if c.User == e.row && c.Bucket == nil && c.LiftedAt == nil {
			e.excluded = append(e.excluded, c.ID)
		}
	}
}

// lateChange notes what a replica that has not heard of an erasure may have changed for the erased
// user before it was kept.
func (w *world) lateChange(r *replica, changed map[string]bool) {
	m := w.model
	for name := range changed {
		if words := strings.Fields(name); keptKinds[words[0]] && w.late(r, models.UserID(words[2])) {
			delete(m.kept, name)
			m.perhaps[name] = true
		}
	}
}

// noteReturned notes which of the facts that were kept hold again, by what the database has. A
// block that holds again has ended a friendship.
func (w *world) noteReturned(now map[string]bool) {
	m := w.model
	waiting := make(map[models.UserID]bool)
	for _, row := range w.unsettled() {
		for _, e := range m.erasures {
			if e.row == row {
				waiting[e.user] = true
			}
		}
	}
	for _, name := range sortedKeys(union(m.kept, m.perhaps)) {
		words := strings.Fields(name)
		a, b := models.UserID(words[1]), models.UserID(words[2])
		if now[name] {
			if !m.facts[name] {
				m.facts[name], m.changedAt[name] = true, w.clock.Now()
				for _, ended := range []string{fact("friends", a, b), fact("friends", b, a)} {
					if words[0] == "blocked" && m.facts[ended] && !now[ended] {
						delete(m.facts, ended)
						m.changedAt[ended] = w.clock.Now()
					}
				}
			}
			delete(m.kept, name)
			m.perhaps[name] = true // until everything is moved, it may come once more
		}
		if !waiting[b] {
			if m.kept[name] {
				w.failf("%q does not hold again", name)
			}
			delete(m.perhaps, name)
		}
	}
}

// lookAtReturned looks whether an erased user has returned in a step.
func (w *world) lookAtReturned() {
	if len(w.model.kept)+len(w.model.perhaps) > 0 {
		w.noteReturned(w.facts())
		w.dropHidden()
	}
	if len(w.model.erasures) > 0 {
		w.lookAtCorrections()
	}
}

// unsettled returns the rows of erased users of whom something may be kept.
func (w *world) unsettled() (rows []models.RowID) {
	check(w.truth.Gorm.Raw(`SELECT row_id FROM erasures WHERE NOT moved`).Scan(&rows).Error)
	return rows
}

// away returns the rows of erased users whose ids have not returned.
func (w *world) away() (rows []models.RowID) {
	check(w.truth.Gorm.Raw(`SELECT row_id FROM erasures e WHERE NOT moved
		AND NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = e.returned_row)`).Scan(&rows).Error)
	return rows
}

// unmoved returns how many users have returned of whom not everything that was kept is moved.
func (w *world) unmoved() (n int) {
	check(w.truth.Gorm.Raw(`SELECT count(*) FROM erasures e JOIN users u ON u.user_id = e.returned_row WHERE NOT e.moved`).Scan(&n).Error)
	return n
}

// checkExclusions checks that exclusions of erased users hold, unless an operator has lifted them or
// has corrected the user since: for the row under which the user id has returned, or for a former
// one before that.
func (w *world) checkExclusions() {
	w.lookAtCorrections()
	for _, e := range w.model.erasures {
		row := w.row(e.user)
		var former []models.RowID
		for _, other := range w.model.erasures {
			if other.user == e.user {
				former = append(former, other.row)
			}
		}
		for _, id := range e.excluded {
			c := w.model.corrections[slices.IndexFunc(w.model.corrections, func(c models.Correction) bool { return c.ID == id })]
			// An erasure after that has emptied other corrections.
			since := slices.ContainsFunc(w.model.corrections, func(other models.Correction) bool {
				ofUser := other.User == row || other.User >= models.FirstNobody || slices.Contains(former, other.User)
				return ofUser && other.ID > id && !other.CreatedAt.Before(e.begun.Add(-2*skewLimit))
			})
			holds := c.User == row || row == 0 && slices.Contains(former, c.User)
			if !holds && c.LiftedBy == "" && !since {
				w.failf("%s was excluded by correction %d, which is now of the row %v", e.user, id, c.User)
			}
		}
	}
}
