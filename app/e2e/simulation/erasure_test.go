package simulation_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// firstRow is the row id of the first user: a number that nothing else is.
const firstRow = 7_000_001

// erasure is one that has begun. From then on the user id is somebody else's.
type erasure struct {
	id    int64
	user  models.UserID
	row   models.RowID
	begun time.Time
	// excluded are the ids of the exclusions without a bucket that held.
	excluded []int64
	// cells are the scores that the user had, archived the days that were archived by then,
	// and corrected those with a correction.
	cells               map[models.Date]*cell
	archived, corrected map[models.Date]bool
	// knownBy are the names of the replicas that have heard of the erasure.
	knownBy map[string]bool
}

// row returns the row id of a user; 0 if there is no such user.
func (w *world) row(user models.UserID) models.RowID {
	if w.rows[user] == 0 {
		var row models.RowID
		check(w.truth.Gorm.Raw(`SELECT user_id FROM users WHERE external_id = ?`, user).Scan(&row).Error)
		w.rows[user] = row
	}
	return w.rows[user]
}

// setFirstRow makes the first user get the row id firstRow.
func (w *world) setFirstRow() {
	query := `INSERT INTO sqlite_sequence (name, seq) VALUES ('users', ?)`
	if w.store == onServers {
		query = `SELECT setval(pg_get_serial_sequence('users', 'user_id'), ?)`
	}
	check(w.truth.Gorm.Exec(query, firstRow-1).Error)
}

// late reports whether a replica may not know yet that one of the users was erased; of any
// user, if none is given. What it then writes for that user is not kept, and what it shows may
// be of the erased one.
func (w *world) late(r *replica, users ...models.UserID) bool {
	return slices.ContainsFunc(w.model.erasures, func(e *erasure) bool {
		return !e.knownBy[r.name] && (len(users) == 0 || slices.Contains(users, e.user))
	})
}

// knowsErasures notes that a replica has heard of the first n erasures.
func (w *world) knowsErasures(r *replica, n int) {
	for _, e := range w.model.erasures[:n] {
		e.knownBy[r.name] = true
	}
}

func (w *world) erase(ctx context.Context, r *replica) {
	user := w.person()
	absent := w.row(user) == 0
	gone := make(map[string]bool)
	for name := range w.model.facts {
		if slices.Contains(strings.Fields(name)[1:], string(user)) {
			gone[name] = false
		}
	}
	token, path, body := w.token(user, ""), "/v1/me", `{"confirm":"erase"}`
	switch w.random.IntN(3) {
	case 0:
		token, path = w.token("backend", auth.ScopeService), "/v1/users/"+string(user)
	case 1:
		token, path, body = w.token("operator", auth.ScopeAdmin), "/v1/admin/users/"+string(user), `{"reason":"a test"}`
	}
	steps, under, least, most := w.steps, w.unfinishedErasures(user), w.erasuresToday(user, skewLimit), w.erasuresToday(user, -skewLimit)
	got := w.change(ctx, r, token, "DELETE", path, body, func(got reply) map[string]bool {
		w.lookAtErasures()
		if got.status == http.StatusTooManyRequests {
			return nil
		}
		return gone
	})
	if got.status == http.StatusAccepted {
		// It knows of this one, and not of others.
		for _, e := range slices.Backward(w.model.erasures) {
			if e.user == user {
				e.knownBy[r.name] = true
				break
			}
		}
	}
	want := http.StatusAccepted
	if absent && under == 0 {
		want = http.StatusNotFound
	}
	if !absent && (least >= 3 || most >= 3 && got.status == http.StatusTooManyRequests) {
		want = http.StatusTooManyRequests
	}
	if !got.unknown() && w.steps == steps && got.status != want {
		w.failf("status %d; %s is absent: %v, with %d erasures under way", got.status, user, absent, under)
	}
}

// erasuresToday returns how many erasures of a user have begun within a day less twice an offset.
func (w *world) erasuresToday(user models.UserID, less time.Duration) (n int) {
	for _, e := range w.model.erasures {
		if e.user == user && e.begun.After(w.clock.Now().Add(2*less-24*time.Hour)) {
			n++
		}
	}
	return n
}

// unfinishedErasures returns how many erasures are not finished: of a user, or all.
func (w *world) unfinishedErasures(users ...models.UserID) (n int) {
	query := w.truth.Gorm.Table("erasures").Select("count(*)").Where("finished_at IS NULL")
	if len(users) > 0 {
		query = query.Where("user_id IN ?", users)
	}
	check(query.Scan(&n).Error)
	return n
}

// lookAtErasures notes the erasures that have begun.
func (w *world) lookAtErasures() {
	last := int64(0)
	if n := len(w.model.erasures); n > 0 {
		last = w.model.erasures[n-1].id
	}
	var found []struct {
		ID, RowID int64
		UserID    models.UserID
		BegunAt   time.Time
	}
	check(w.truth.Gorm.Raw(`SELECT id, row_id, user_id, begun_at FROM erasures WHERE id > ? ORDER BY id`, last).Scan(&found).Error)
	for _, f := range found {
		w.lookAtArchive()
		w.erased(&erasure{id: f.ID, user: f.UserID, row: models.RowID(f.RowID), begun: f.BegunAt})
	}
}

// erased notes that an erasure has begun.
func (w *world) erased(e *erasure) {
	m := w.model
	e.knownBy, e.archived, e.corrected = make(map[string]bool), maps.Clone(m.archived), make(map[models.Date]bool)
	e.cells, m.cells[e.user] = m.cells[e.user], make(map[models.Date]*cell)
	for day := m.started; day <= dayOf(w.clock.Now())+1; day++ {
		_, e.corrected[day] = m.corrected(e.row, day)
	}
	w.keep(e)
	for _, g := range m.gifts {
		g.gone = g.gone || g.user == e.user
	}
	delete(m.shown, e.user)
	delete(w.rows, e.user)
	names := func(text string) bool { return slices.Contains(strings.Fields(text), string(e.user)) }
	maps.DeleteFunc(m.likes, func(name string, _ bool) bool { return names(name) })
	got, _ := w.received()
	for name, n := range m.outcomes {
		if names(name) {
			m.dropped[name] = n - got[name]
		}
	}
	m.erasures = append(m.erasures, e)
}

// finishErasures lets a replica sweep until all erasures are finished, and what was kept of those
// who have returned is moved.
func (w *world) finishErasures() {
	for range 10 {
		if w.unfinishedErasures() == 0 && w.unmoved() == 0 {
			break
		}
		w.advance(time.Minute)
		for _, name := range []string{"correct", "archive", "correct-archive", "erase"} {
			w.takeRound(w.replicas[0], name)
		}
	}
	if n := w.unfinishedErasures(); n > 0 {
		w.failf("%d erasures are never finished", n)
	}
	if n := w.unmoved(); n > 0 {
		w.failf("what was kept of %d users who have returned is never moved", n)
	}
	w.takeRound(w.replicas[0], "erase-again")
}

// checkAnonymous compares the lines without a name of a complete global list with the people
// who are not shown to its viewer, and with those who were erased after the day was archived.
func (w *world) checkAnonymous(viewer models.UserID, day models.Date, got ranking) {
	least, most := 0, 0
	var cells []*cell
	corrected := false
	count := func(c *cell, ever bool) {
		switch {
		case ever:
			corrected = true
			most++
		case c == nil:
		case c.sure != nil:
			least++
			most++
		case len(c.sent) > 0:
			most++
		}
		if c != nil {
			cells = append(cells, c)
		}
	}
	for _, user := range people {
		if w.model.notShown(viewer, user) {
			_, ever := w.model.corrected(w.row(user), day)
			count(w.model.cell(user, day), ever)
		}
	}
	for _, e := range w.model.erasures {
		if e.archived[day] {
			count(e.cells[day], e.corrected[day])
		}
	}
	shown := 0
	for _, entry := range got.Entries {
		if entry.User != nil {
			continue
		}
		shown++
		if !corrected && !slices.ContainsFunc(cells, func(c *cell) bool { return c.allows(entry.value()) }) {
			w.failf("%v is shown without a name on %v, which nobody has had", entry.value(), day)
		}
	}
	if shown < least || shown > most {
		w.failf("%d lines of %v have no name for %s, and there must be %d to %d", shown, day, viewer, least, most)
	}
}

// checkTraces checks that nothing names the row id of somebody whose erasure is finished,
// except the erasure itself, and what is kept of those who have not returned.
func (w *world) checkTraces() {
	erased := make(map[string]bool)
	for _, e := range w.model.erasures {
		erased[e.row.String()] = true
	}
	if len(erased) == 0 {
		return
	}
	away := make(map[string]bool)
	for _, row := range w.away() {
		away[row.String()] = true
	}
	keeps := func(table string, row map[string]any) bool {
		switch table {
		case "kept_choices", "identities_erased":
			return away[fmt.Sprint(row["row_id"])]
		case "corrections":
			return row["kind"] == string(models.CorrectionExclude) && row["before_score"] == nil
		case "friend_requests":
			return row["declined_at"] != nil && away[fmt.Sprint(row["other_id"])]
		}
		return false
	}
	look := func(where, text string) {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsDigit(r) }) {
			if erased[word] {
				w.failf("%s has an erased user: %s", where, text)
			}
		}
	}
	var tables []string
	query := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'erasures'`
	if w.store == onServers {
		query = `SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
			AND relnamespace = 'public'::regnamespace AND relname <> 'erasures'`
	}
	check(w.truth.Gorm.Raw(query).Scan(&tables).Error)
	for _, table := range tables {
		var rows []map[string]any
		check(w.truth.Gorm.Table(table).Find(&rows).Error)
		for _, row := range rows {
			if body, ok := row["body"].([]byte); ok && table == "standings" {
				row["body"] = string(body)
			}
			if !keeps(table, row) {
				look(table, fmt.Sprint(row))
			}
		}
	}
	for _, name := range w.boards.Keys() {
		content := ""
		if strings.HasPrefix(name, "passed:") {
			look("Redis", name)
			continue // what was seen of others expires within days
		}
		switch kind := w.boards.Type(name); {
		case kind == "stream", kind == "hash": // entries age out; hashes have counters
			continue
		case w.restored && isList(name):
			continue // copies of lists that an older Redis has brought back expire within an hour
		case kind == "string":
			content = must(w.boards.Get(name))
		case kind == "set":
			content = fmt.Sprint(w.boards.Members(name))
		case kind == "zset":
			content = fmt.Sprint(slices.Collect(maps.Keys(must(w.boards.SortedSet(name)))))
		}
		look("Redis", name+" "+content)
	}
}

// isList reports whether a key is that of a copy of a list.
func isList(name string) bool {
	return strings.HasPrefix(name, "friends") || strings.HasPrefix(name, "not-shown") || strings.HasPrefix(name, "groups")
}

// anybodyErased reports whether one of the people was ever erased.
func (w *world) anybodyErased() bool {
	return slices.ContainsFunc(w.model.erasures, func(e *erasure) bool { return slices.Contains(people, e.user) })
}

// everErased reports whether an outcome is of somebody who was ever erased. A replica that
// heard of it late may have had more outcomes of that user.
func (w *world) everErased(outcome string) bool {
	return slices.ContainsFunc(w.model.erasures, func(e *erasure) bool {
		return slices.Contains(strings.Fields(outcome), string(e.user))
	})
}
