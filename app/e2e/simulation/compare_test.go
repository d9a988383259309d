package simulation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"stepboard/models"
)

// line is an entry of a ranking.
type line struct {
	Rank      int64             `json:"rank"`
	User      *models.UserID    `json:"user_id"`
	Score     *int64            `json:"score"`
	At        *models.Timestamp `json:"reached_at"`
	Anonymous bool              `json:"anonymous"`
	Likes     int64             `json:"likes"`
	Liked     bool              `json:"liked"`
}

func (l line) value() *value {
	if l.Score == nil {
		return nil
	}
	return &value{*l.Score, *l.At}
}

// ranking is the answer to a call for a ranking.
type ranking struct {
	Total   int64   `json:"total"`
	Me      *line   `json:"me"`
	Entries []line  `json:"entries"`
	Next    *string `json:"next_cursor"`
	Final   bool    `json:"final"`
}

func decode[T any](w *world, body []byte) (v T) {
	if err := json.Unmarshal(body, &v); err != nil {
		w.failf("%v in %s", err, body)
	}
	return v
}

// inOrder checks ranks and order of a whole ranking.
func (w *world) inOrder(r ranking) {
	if int(r.Total) != len(r.Entries) {
		w.failf("total %d of %d entries", r.Total, len(r.Entries))
	}
	for i, entry := range r.Entries {
		if int(entry.Rank) != i+1 {
			w.failf("rank %d at place %d", entry.Rank, i+1)
		}
		if i > 0 && entry.value().better(*r.Entries[i-1].value()) {
			w.failf("%v ranks after %v", entry.value(), r.Entries[i-1].value())
		}
	}
}

// allowed returns an error unless replica r may show the value of a user's score on a day.
// exact says that nothing is under way.
func (w *world) allowed(r *replica, user models.UserID, day models.Date, shown *value, friends, exact bool) error {
	if w.late(r, user) {
		return nil
	}
	c := w.model.cell(user, day)
	if (friends || r.staleness > 0) && !exact { // global lists are read in memory, too
		c = c.asOf(w.oldest(r))
	}
	held, ever := w.model.corrected(w.row(user), day)
	if !ever {
		if !c.allows(shown) {
			return fmt.Errorf("%s on %s: %v is shown, and %v is sure of %d sent", user, w.named(day), shown, c.sure, len(c.sent))
		}
		return nil
	}
	if held != nil {
		want := correctedValue(held)
		knows := friends && w.model.knownBy[r.name+fmt.Sprint(held.ID)] && !w.model.archived[day]
		if equal(want, shown) {
			return nil
		}
		if exact || knows {
			return fmt.Errorf("%s on %s: %v is shown, and a correction makes it %v", user, w.named(day), shown, want)
		}
		return nil
	}
	if exact && !c.allows(shown) {
		return fmt.Errorf("%s on %s: %v is shown, corrections were lifted, and %v is sure", user, w.named(day), shown, c.sure)
	}
	if shown == nil || equal(shown, c.sure) || slices.Contains(c.sent, *shown) {
		return nil
	}
	for i := range w.model.corrections {
		if equal(correctedValue(&w.model.corrections[i]), shown) {
			return nil
		}
	}
	return fmt.Errorf("%s on %s: %v is shown, which nobody has sent", user, w.named(day), shown)
}

func equal(a, b *value) bool { return a == b || a != nil && b != nil && *a == *b }

// oldest returns the moment from which on a ranking of a replica must have every change.
func (w *world) oldest(r *replica) time.Time { return w.clock.Now().Add(-r.staleness) }

// oldSets reports whether a replica may show older lists of friends and members, because Redis
// has brought them back.
func (w *world) oldSets(r *replica) bool {
	return w.model.oldSets || r.staleness > 0 && !w.model.setsRenewed.Before(w.oldest(r))
}

// changed reports whether it has changed so lately whether a user is in a viewer's circle that
// the near cache of a replica may show it as it was before.
func (w *world) changed(r *replica, viewer, user models.UserID, group string) bool {
	if r.staleness == 0 {
		return false
	}
	names := []string{
		"hidden " + string(user), "member " + group + " " + string(user), "member " + group + " " + string(viewer),
		fact("friends", viewer, user),
	}
	for kind := range choicePaths {
		names = append(names, fact(kind, viewer, user), fact(kind, user, viewer))
	}
	return slices.ContainsFunc(names, func(name string) bool {
		at, ever := w.model.changedAt[name]
		return ever && !at.Before(w.oldest(r))
	})
}

// checkCircle compares a friend or group ranking with the model.
func (w *world) checkCircle(r *replica, viewer models.UserID, group string, day models.Date, got ranking, exact bool) {
	w.inOrder(got)
	circle := w.model.circle(viewer, group)
	shown := make(map[models.UserID]*value)
	for _, entry := range got.Entries {
		shown[*entry.User] = entry.value()
		if !circle[*entry.User] && !w.oldSets(r) && !w.late(r, *entry.User) && !w.changed(r, viewer, *entry.User, group) {
			w.failf("%s is shown to %s, whose circle is %v", *entry.User, viewer, slices.Sorted(maps.Keys(circle)))
		}
	}
	for _, user := range people {
		unsure := w.oldSets(r) || w.changed(r, viewer, user, group)
		if !circle[user] || unsure && shown[user] == nil && user != viewer {
			continue
		}
		if err := w.allowed(r, user, day, shown[user], true, exact); err != nil {
			w.failf("shown to %s: %v", viewer, err)
		}
	}
	var me *value
	if got.Me != nil {
		me = got.Me.value()
	}
	if !equal(me, shown[viewer]) {
		w.failf("me is %v, and in the list %v", me, shown[viewer])
	}
}

// checkTop compares the global list with the model.
func (w *world) checkTop(r *replica, viewer models.UserID, day models.Date, got ranking, exact bool) {
	w.inOrder(got)
	shown := make(map[models.UserID]*value)
	anonymous := 0
	for _, entry := range got.Entries {
		if entry.User == nil {
			anonymous++
			continue
		}
		shown[*entry.User] = entry.value()
		if exact && w.model.notShown(viewer, *entry.User) {
			w.failf("%s is shown to %s by name", *entry.User, viewer)
		}
	}
	if exact {
		w.checkAnonymous(viewer, day, got)
	}
	for _, user := range people {
		hidden := anonymous > 0 && (!exact || w.model.notShown(viewer, user))
		if shown[user] == nil && (hidden || w.model.oldSets) {
			continue
		}
		if err := w.allowed(r, user, day, shown[user], false, exact); err != nil {
			w.failf("shown to %s: %v", viewer, err)
		}
	}
}

// checkEvent compares a ranking of the event with the model.
func (w *world) checkEvent(r *replica, viewer models.UserID, got ranking, exact bool) {
	w.inOrder(got)
	circle := w.model.circle(viewer, "")
	shown := make(map[models.UserID]int64)
	for _, entry := range got.Entries {
		shown[*entry.User] = *entry.Score
	}
	for _, user := range people {
		if !circle[user] || w.oldSets(r) || w.late(r, user) || w.changed(r, viewer, user, "") {
			continue
		}
		sure, most := w.model.counted(user)
		least := w.model.shown[user]
		if exact {
			least = sure
		}
		if shown[user] < least || shown[user] > most {
			w.failf("%s has %d in the event, and must have %d to %d", user, shown[user], least, most)
		}
	}
}

// exists reports whether a row id is that of a user.
func (w *world) exists(row models.RowID) bool {
	return slices.ContainsFunc(people, func(user models.UserID) bool { return w.row(user) == row })
}

// look reads what the database has, and returns an error unless it is what a call may have
// made of it: certain says that the call was acknowledged or refused, and only the facts that
// change names may have changed, to what it says.
func (w *world) look(certain bool, change map[string]bool) {
	now := w.facts()
	w.noteReturned(now)
	for _, name := range sortedKeys(union(now, w.model.facts)) {
		was, is := w.model.facts[name], now[name]
		want, changes := change[name]
		if was != is {
			w.model.changedAt[name] = w.clock.Now()
		}
		switch {
		case !changes && was != is:
			w.failf("%q was %v and is %v, which nobody has asked for", name, was, is)
		case changes && certain && is != want:
			w.failf("%q is %v after a call that makes it %v", name, is, want)
		}
	}
	for _, name := range sortedKeys(change) {
		want := change[name]
		if certain && now[name] != want {
			w.failf("%q is %v after a call that makes it %v", name, now[name], want)
		}
	}
	w.model.facts = now
	w.lookAtRequests()
	w.lookAtLikes()
	w.dropHidden()
}

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// facts reads friendships, choices, memberships and likes of people. Groups of users have random ids, and get
// names by their numbers.
func (w *world) facts() map[string]bool {
	facts := make(map[string]bool)
	for _, query := range []string{
		`SELECT 'friends ' || a.external_id || ' ' || b.external_id FROM friendships f
			JOIN users a ON a.user_id = f.user_id JOIN users b ON b.user_id = f.friend_id`,
		`SELECT c.kind || ' ' || a.external_id || ' ' || b.external_id FROM privacy_choices c
			JOIN users a ON a.user_id = c.user_id JOIN users b ON b.user_id = c.other_id`,
		`SELECT 'likes ' || f.external_id || ' ' || t.external_id || ' ' || substr(CAST(l.day AS text), 1, 10) FROM likes l
			JOIN users f ON f.user_id = l.liked_by JOIN users t ON t.user_id = l.user_id WHERE NOT withdrawn`,
		`SELECT 'hidden ' || external_id FROM users WHERE hidden`,
		`SELECT 'member ' || CASE WHEN g.invite_code IS NULL THEN g.external_id ELSE 'group-' || g.group_id END || ' ' || u.external_id FROM group_members m
			JOIN groups g ON g.group_id = m.group_id JOIN users u ON u.user_id = m.user_id`,
	} {
		var found []string
		check(w.truth.Gorm.WithContext(context.Background()).Raw(query).Scan(&found).Error)
		for _, name := range found {
			if !strings.Contains(name, " u_") { // those who have signed up are no people of the model
				facts[name] = true
			}
		}
	}
	var groups []struct {
		Name, ExternalID string
		InviteCode       *string
	}
	check(w.truth.Gorm.Raw(`SELECT CASE WHEN invite_code IS NULL THEN external_id ELSE 'group-' || group_id END AS name,
		external_id, invite_code FROM groups`).Scan(&groups).Error)
	for _, g := range groups {
		w.groupIDs[g.Name] = g.ExternalID
		if g.InviteCode != nil {
			w.names[g.ExternalID], w.names[*g.InviteCode] = g.Name, "code of "+g.Name
		}
	}
	return facts
}

// lookAtArchive reads which days are archived.
func (w *world) lookAtArchive() {
	var found []string
	for _, c := range w.contests {
		var n int64
		check(w.truth.Gorm.Raw(`SELECT count(*) FROM board_archives WHERE board = ? AND state = 'complete'`, c.name).Scan(&n).Error)
		if n > 0 && !w.model.archived[c.day] {
			w.model.archived[c.day] = true
			w.showContests(c)
		}
	}
	check(w.truth.Gorm.Raw(`SELECT DISTINCT bucket FROM board_archives WHERE board = 'steps' AND state = 'complete'`).Scan(&found).Error)
	for _, name := range found {
		w.model.archived[must(models.ParseDate(name[:4]+"-"+name[4:6]+"-"+name[6:]))] = true
	}
}

// lookAtCorrections reads the corrections. If the user of one has returned under another row, no
// replica needs to know that.
func (w *world) lookAtCorrections() {
	var found []models.Correction
	check(w.truth.Gorm.Order("id").Find(&found).Error)
	for i, c := range w.model.corrections {
		if found[i].User != c.User {
			for _, r := range w.replicas {
				delete(w.model.knownBy, r.name+fmt.Sprint(c.ID))
			}
		}
	}
	w.model.corrections = found
}

// sortedKeys returns the keys of a map in their order.
func sortedKeys[V any](m map[string]V) []string {
	keys := slices.Collect(maps.Keys(m))
	sort.Strings(keys)
	return keys
}
