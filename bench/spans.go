package main

import (
	"context"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

const (
	// spanGroups is the number of groups, and groupMembers that of the members of each.
	spanGroups   = 20
	groupMembers = 500
	// spanDays is the longest span.
	spanDays = 31
)

// spansBench measures rankings of friends and of groups by the days that they add up. The
// days before the hot ones are archived.
func (e *environment) spansBench(ctx context.Context) error {
	postgres, err := findPostgres(ctx, e.stores.Pool)
	if err != nil {
		return err
	}
	if err := e.fillSpan(ctx); err != nil {
		return err
	}
	groups, err := e.makeGroups(ctx)
	if err != nil {
		return err
	}
	var rows []*nameRow
	for _, circle := range []struct {
		name    string
		viewers int
		path    func(v int) string
	}{
		{fmt.Sprintf("%d friends", e.friends), e.viewers, func(int) string { return "friends" }},
		{fmt.Sprintf("group of %d", groupMembers), spanGroups, func(v int) string { return "groups/" + groups[v] }},
	} {
		for _, days := range []int{1, 7, spanDays} {
			requests := make([][]byte, e.viewers)
			for i := range requests {
				v := i % circle.viewers
				path := fmt.Sprintf("/v1/boards/steps/%s?limit=%d%s", circle.path(v), e.limit, spanQuery(days))
				token, err := e.token(userID(viewer(v)), "")
				if err != nil {
					return err
				}
				requests[i] = httpRequest("GET", path, token, "")
			}
			if err := e.askOnce(ctx, e.service.addr, requests); err != nil {
				return err
			}
			r := e.newNameRow(e.limit, requests, postgres)
			r.name, r.viewers = circle.name, days
			rows = append(rows, r)
		}
	}
	for range e.rounds {
		for _, r := range rows {
			if err := r.run(ctx, e); err != nil {
				return fmt.Errorf("%s, %d days: %w", r.name, r.viewers, err)
			}
		}
	}
	fmt.Printf("\n| pages of %d, board of %d | days | a second | ratio | Redis, µs of CPU each | server | Postgres | client |\n", e.limit, e.board)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	printByFirst(rows)
	return nil
}

// spanQuery returns the parameters of a ranking of the last days, today included.
func spanQuery(days int) string {
	if days == 1 {
		return ""
	}
	zone := time.FixedZone("Asia/Shanghai", 8*3600)
	today := models.DateOf(time.Now().In(zone))
	return fmt.Sprintf("&from=%s&to=%s", today-models.Date(days-1), today)
}

// fillSpan gives everybody a score on each day, and archives the days that are not hot.
func (e *environment) fillSpan(ctx context.Context) error {
	for ago := 1; ago < spanDays; ago++ {
		bucket, _, err := e.fillDay(ctx, -ago)
		if err != nil {
			return err
		}
		if !bucket.Cold(time.Now().Add(-time.Hour)) {
			continue // the archive waits for an hour
		}
		if _, err := e.archiveDay(ctx, e.stores.Pool, bucket); err != nil {
			return err
		}
	}
	_, err := e.stores.Pool.Exec(ctx, "VACUUM ANALYZE archived_scores")
	return err
}

// makeGroups makes groups of random users, each with one of the first viewers, and returns
// their names.
func (e *environment) makeGroups(ctx context.Context) ([]string, error) {
	rng := mathrand.New(mathrand.NewPCG(16, 17))
	names := make([]string, spanGroups)
	for g := range names {
		names[g] = fmt.Sprint("bench-", g)
		seen := map[models.RowID]bool{viewer(g): true}
		members := []models.UserID{userID(viewer(g))}
		for len(members) < groupMembers {
			if row := models.RowID(firstUser + rng.IntN(e.board)); !seen[row] {
				seen[row] = true
				members = append(members, userID(row))
			}
		}
		body, err := json.Marshal(map[string]any{"member_ids": members})
		if err != nil {
			return nil, err
		}
		if err := e.send(ctx, http.MethodPut, "/v1/groups/"+names[g]+"/members", auth.ScopeService, body); err != nil {
			return nil, err
		}
	}
	return names, nil
}
