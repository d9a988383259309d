package handlers_test

import (
	"context"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/corrections"
)

// correctionsFake is a fake handlers.CorrectionService with the corrections 3, 2 and 1. The
// first holds for a day, the second was lifted and is pending, and the third is about a user
// who no longer exists.
type correctionsFake struct{ *recorder }

func correctionOf(id int64) corrections.Entry {
	bucket, points, before := "20261120", int64(4000), int64(98_800)
	e := corrections.Entry{UserID: "a|b", Nickname: "Ann", Days: true, Score: &points, BeforeScore: &before, Correction: models.Correction{
		ID: id, Board: "steps", Bucket: &bucket, Day: 20777, User: 88001, Kind: models.CorrectionSet, Reason: "shaken", Message: "Ask us", Actor: "ann", CreatedAt: noon,
	}}
	if id == 2 {
		at := noon
		e.Bucket, e.Kind, e.Score, e.Pending = nil, models.CorrectionExclude, nil, true
		e.LiftedAt, e.LiftedBy, e.LiftReason = &at, "bob", "no"
	}
	if id == 1 {
		event := "event"
		e.UserID, e.Nickname, e.BeforeScore, e.Bucket, e.Days = "", "", nil, &event, false
	}
	return e
}

func (s correctionsFake) Create(_ context.Context, r corrections.Request) (corrections.Entry, error) {
	date, points := "none", int64(-1)
	if r.Date != nil {
		date = r.Date.String()
	}
	if r.Score != nil {
		points = *r.Score
	}
	e := correctionOf(3)
	if r.DryRun {
		e.ID = 0
	}
	return e, s.record("Create", r.Board, date, r.User, r.Kind, points, r.Reason+r.Message, r.Actor, r.DryRun)
}

func (s correctionsFake) Lift(_ context.Context, l corrections.Lifting) (corrections.Entry, error) {
	return correctionOf(2), s.record("Lift", l.ID, l.Reason, l.Actor, l.DryRun)
}

func (s correctionsFake) List(_ context.Context, q corrections.Query) (list []corrections.Entry, err error) {
	for id := int64(3); id >= 1; id-- {
		if (q.Before == 0 || id < q.Before) && len(list) < q.Limit {
			list = append(list, correctionOf(id))
		}
	}
	day := "-"
	if q.Day != nil {
		day = q.Day.String()
	}
	return list, s.record("List", q.Board, q.User, day, q.Active, q.Before, q.Limit)
}

func TestCorrections(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Corrections: correctionsFake{r}} }
	const (
		create = "POST /v1/admin/corrections"
		lift   = "POST /v1/admin/corrections/2/lift"
		list   = "GET /v1/admin/corrections"
		set    = `{"board":"steps","date":"2026-11-20","user_id":"a|b","kind":"set","score":4000,"reason":"shaken"}`
		out    = `{"board":"steps","date":null,"user_id":"a|b","kind":"exclude","reason":"shaken"}`
		why    = `{"reason":"no"}`

		made = `"board":"steps","date":"2026-11-20","first_date":"2026-11-20","user_id":"a|b","nickname":"Ann","kind":"set","score":4000,` +
			`"before":98800,"reason":"shaken","message":"Ask us","actor":"ann","created_at":"2026-11-20T04:00:00.000Z","state":"applied",` +
			`"lifted_at":null,"lifted_by":null,"lift_reason":null}`
		lifted = `{"id":"2","board":"steps","date":null,"first_date":"2026-11-20","user_id":"a|b","nickname":"Ann","kind":"exclude","score":null,` +
			`"before":98800,"reason":"shaken","message":"Ask us","actor":"ann","created_at":"2026-11-20T04:00:00.000Z","state":"pending",` +
			`"lifted_at":"2026-11-20T04:00:00.000Z","lifted_by":"bob","lift_reason":"no"}`
		gone = `{"id":"1","board":"steps","date":null,"first_date":null,"user_id":null,"nickname":"","kind":"set","score":4000,` +
			`"before":null,"reason":"shaken","message":"Ask us","actor":"ann","created_at":"2026-11-20T04:00:00.000Z","state":"applied",` +
			`"lifted_at":null,"lifted_by":null,"lift_reason":null}`
	)
	created := []string{"Create steps 2026-11-20 a|b set 4000 shaken alice false"}
	listed := []string{"List   - false 0 51"}
	exists := models.Errorf(models.CodeCorrectionExists, "one holds")
	runCases(t, config, []testCase{
		{"set", "admin", create, set, nil, created, `201 {"id":"3",` + made},
		{"exclude", "admin", create, out, nil, []string{"Create steps none a|b exclude -1 shaken alice false"}, "201 …"},
		{"with a message", "admin", create, strings.Replace(set, `"reason"`, `"message":" and lost","reason"`, 1), nil,
			[]string{"Create steps 2026-11-20 a|b set 4000 shaken and lost alice false"}, "201 …"},
		{"too long a message", "admin", create, strings.Replace(set, `"reason"`, `"message":"`+strings.Repeat("步", 201)+`","reason"`, 1), nil, nil,
			"422 validation_failed: body.message: …"},
		{"a dry run", "admin", create + "?dry_run=true", set, nil,
			[]string{"Create steps 2026-11-20 a|b set 4000 shaken alice true"}, `200 {"id":null,` + made},
		{"another holds", "admin", create, set, exists, created, "409 correction_exists: one holds"},
		{"a fraction", "admin", create, strings.Replace(set, "4000", "4000.5", 1), nil, nil,
			"422 validation_failed: body.score: must be a whole number"},
		{"a number with a point", "admin", create, strings.Replace(set, "4000", "4000.0", 1), nil, nil,
			"422 validation_failed: body.score: must be a whole number"},
		{"no date", "admin", create, `{"board":"steps","date":"x","user_id":"1","kind":"set","score":1,"reason":"r"}`, nil, nil,
			"422 validation_failed: body.date: …"},
		{"no kind", "admin", create, `{"board":"steps","user_id":"1","kind":"raise","reason":"r"}`, nil, nil, "422 validation_failed: …"},
		{"no reason", "admin", create, `{"board":"steps","user_id":"1","kind":"exclude"}`, nil, nil, "422 validation_failed: …"},
		{"with a service's token", "service", create, set, nil, nil, "403 forbidden: this token may not make this call"},
		{"an unknown error", "admin", create, set, errUnknown, created, wantInternal},
		{"lift", "admin", lift, why, nil, []string{"Lift 2 no alice false"}, "200 " + lifted},
		{"lift, a dry run", "admin", lift + "?dry_run=true", why, nil, []string{"Lift 2 no alice true"}, "200 …"},
		{"lift without a reason", "admin", lift, `{}`, nil, nil, "422 validation_failed: …"},
		{"list", "admin", list, "", nil, listed,
			`200 {"corrections":[{"id":"3",` + made + "," + lifted + "," + gone + `],"next_cursor":null}`},
		{"list some", "admin", list + "?board=steps&user_id=a%7Cb&active=true", "", nil, []string{"List steps a|b - true 0 51"}, "200 …"},
		{"list those of a day", "admin", list + "?date=2026-11-20", "", nil, []string{"List   2026-11-20 false 0 51"}, "200 …"},
		{"list those of no day", "admin", list + "?date=x", "", nil, nil, "422 validation_failed: query.date: …"},
		{"list, the store is away", "admin", list, "", errUnavailable, listed, wantUnavailable},
	})
	checkPages(t, config, "admin", list+"?limit=1", []string{"List   - false 0 2", "List   - false 3 2", "List   - false 2 2"})
}
