package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// likesOf returns the likes of each line of a ranking with include=likes, such as "ben 2 liked",
// that of the viewer last.
func (s *server) likesOf(viewer models.UserID, path string) []string {
	s.t.Helper()
	var r models.Ranking
	s.want(s.as(viewer, "GET", path, nil), 200, &r)
	if r.Me != nil {
		r.Entries = append(r.Entries, *r.Me)
	}
	var lines []string
	for _, e := range r.Entries {
		if e.Likes == nil || e.Liked == nil {
			s.t.Fatalf("%s: an entry without likes: %+v", path, e)
		}
		line := fmt.Sprintf("%s %d", e.User, *e.Likes)
		if *e.Liked {
			line += " liked"
		}
		lines = append(lines, line)
	}
	return lines
}

// newLikes starts a service with ann, who has the friends ben and eve, and a group with cho.
// dee is a stranger, and eve has no score.
func newLikes(t *testing.T, env *testenv.Env, backend *backend) *server {
	t.Helper()
	s := newServer(t, env, backend.use)
	s.waitForStartJobs()
	s.want(s.service("PUT", "/v1/users/ann/friends", `{"friend_ids":["ben","eve"]}`), 200, nil)
	s.want(s.service("PUT", "/v1/groups/team/members", `{"member_ids":["ann","cho"]}`), 200, nil)
	s.uploadDay(models.DateOf(testenv.Noon), map[models.UserID]int{"ann": 3, "ben": 2, "cho": 1, "dee": 1})
	return s
}

// People like the scores that rankings of friends and groups show them, on hot and on archived
// days; each like counts once, and can be withdrawn.
func TestLikes(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	backend := newBackend(t)
	s := newLikes(t, env, backend)
	const ann, day = "/v1/boards/steps/likes/ann", "?date=2026-11-20"
	for range 2 {
		s.want(s.as("ben", "PUT", ann, nil), 204, nil)
		s.want(s.as("cho", "PUT", ann+day, nil), 204, nil)
	}
	s.want(s.service("PUT", "/v1/boards/steps/likes/ben?user_id=ann", nil), 204, nil)
	s.refuse(s.as("dee", "PUT", ann, nil), 404, models.CodeNotFound)
	s.refuse(s.as("dee", "GET", ann, nil), 404, models.CodeNotFound)
	s.refuse(s.as("ann", "PUT", "/v1/boards/steps/likes/eve", nil), 404, models.CodeNotFound)
	s.refuse(s.as("ann", "PUT", "/v1/boards/steps/likes/nobody", nil), 404, models.CodeNotFound)
	s.refuse(s.as("ann", "PUT", "/v1/boards/steps/likes/ben?date=2026-11-19", nil), 404, models.CodeNotFound)
	s.refuse(s.as("ann", "PUT", "/v1/boards/steps/likes/ben?date=2026-11-21", nil), 422, models.CodeDateInFuture)
	s.refuse(s.as("ann", "PUT", ann, nil), 422, models.CodeValidationFailed)
	s.refuse(s.as("ann", "PUT", "/v1/boards/nix/likes/ben", nil), 404, models.CodeBoardNotFound)
	for _, when := range []string{"hot", "archived"} {
		s.check(when, strings.Join(s.likesOf("ben", "/v1/boards/steps/friends"+day+"&include=likes"), ", "), "ann 2 liked, ben 1, ben 1")
		s.check(when, strings.Join(s.likesOf("ann", "/v1/boards/steps/groups/team"+day+"&include=likes&limit=1"), ", "), "ann 2, ann 2")
		if a := s.as("ben", "GET", "/v1/boards/steps/friends"+day, nil); strings.Contains(string(a.body), "like") {
			t.Errorf("without include: %s", a.body)
		}
		if when == "hot" {
			env.Clock.Advance(6 * 24 * time.Hour)
			s.archiveDue()
		}
	}
	s.want(s.as("cho", "DELETE", ann+day, nil), 204, nil)
	s.want(s.as("cho", "DELETE", ann+day, nil), 204, nil)
	s.want(s.as("dee", "DELETE", ann+day, nil), 204, nil)
	s.check("withdrawn", strings.Join(s.likesOf("ben", "/v1/boards/steps/friends"+day+"&include=likes&limit=1"), ", "), "ann 1 liked, ben 1")
	s.want(s.as("cho", "PUT", ann+day, nil), 204, nil)
	s.check("given again", strings.Join(s.likesOf("ben", "/v1/boards/steps/friends"+day+"&include=likes&limit=1"), ", "), "ann 2 liked, ben 1")
	// Each of them was news once.
	got := backend.received(t, models.OutcomeLikeGiven, 3)
	slices.Sort(got)
	want := []string{
		`{"board":"steps","date":"2026-11-20","from":"ann","to":"ben"}`, `{"board":"steps","date":"2026-11-20","from":"ben","to":"ann"}`,
		`{"board":"steps","date":"2026-11-20","from":"cho","to":"ann"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("received %v", got)
	}
}

// Only boards with days have likes.
func TestLikesNeedDays(t *testing.T) {
	t.Parallel()
	s := newServer(t, testenv.Local(t))
	s.want(s.admin("POST", "/v1/admin/boards", `{"name":"active","kind":"rolling","max_score":1000}`), 201, nil)
	for _, method := range []string{"PUT", "DELETE", "GET"} {
		s.refuse(s.as("ann", method, "/v1/boards/active/likes/ben", nil), 409, models.CodeBoardKind)
	}
	s.refuse(s.as("ann", "GET", "/v1/boards/active/friends?include=likes", nil), 409, models.CodeBoardKind)
	s.refuse(s.as("ann", "GET", "/v1/boards/steps/friends?include=cats", nil), 422, models.CodeValidationFailed)
}
