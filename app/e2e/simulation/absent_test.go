package simulation_test

import (
	"context"
	"maps"
	"slices"

	"stepboard/models"
)

// listAbsent compares those of whom somebody is shown no score with the model.
func (w *world) listAbsent(ctx context.Context, r *replica) {
	viewer, day := w.person(), w.someDay()
	group := ""
	if w.random.IntN(2) == 0 {
		group = w.group()
	}
	if group == "" || w.model.facts["member "+group+" "+string(viewer)] {
		w.compareAbsent(ctx, r, viewer, group, day, false)
	}
}

// compareAbsent compares the absent friends of a viewer, or members of a group, with the model.
func (w *world) compareAbsent(ctx context.Context, r *replica, viewer models.UserID, group string, day models.Date, exact bool) {
	same := w.undisturbed()
	path := "/v1/boards/steps/friends"
	if group != "" {
		path = "/v1/boards/steps/groups/" + w.groupIDs[group]
	}
	limit := 200
	if !exact {
		limit = w.pageSize(r)
	}
	got, ok := w.list(ctx, r, viewer, path+"/absent?date="+day.String(), limit)
	if !ok || !same() {
		return
	}
	if int(got.Total) != len(got.Entries) {
		w.failf("%d are absent for %s, and %d are listed", got.Total, viewer, len(got.Entries))
	}
	absent := make(map[models.UserID]bool)
	for _, entry := range got.Entries {
		absent[*entry.User] = true
	}
	circle, everybody := w.model.circle(viewer, group), w.model.everybody(viewer, group)
	for _, user := range people {
		c := w.model.cell(user, day)
		_, corrected := w.model.corrected(w.row(user), day)
		switch {
		case w.late(r, user):
		case !everybody[user] && absent[user]:
			w.failf("%s is absent for %s, whose circle is %v", user, viewer, slices.Sorted(maps.Keys(everybody)))
		case !everybody[user]:
		case !circle[user] && !absent[user]:
			w.failf("%s, whose scores %s is not shown, is not absent", user, viewer)
		case !circle[user]:
		case absent[user]:
			if err := w.allowed(r, user, day, nil, true, exact); err != nil {
				w.failf("absent for %s: %v", viewer, err)
			}
		case c.sure == nil && c.acknowledged == nil && len(c.sent) == 0 && !corrected:
			w.failf("%s has no score on %s, and is not absent for %s", user, w.named(day), viewer)
		}
	}
}
