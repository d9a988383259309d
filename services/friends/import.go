package friends

import (
	"context"
	"fmt"

	"stepboard/models"
)

// Rejected is an edge that could not be imported.
type Rejected struct {
	// Index is the edge's position, from 0.
	Index int
	Err   error
}

// Import adds friendships, and the users that they need. Edges that exist, in
// either direction, stay as they are. Invalid edges, and those of users with
// too many friends, are skipped and returned. added is the number of new
// friendships. A few statements for a few thousand edges.
func (s *Service) Import(ctx context.Context, edges []models.Edge) (added int, rejected []Rejected, err error) {
	var users []models.RowID
	for i, e := range edges {
		if e.A == e.B {
			rejected = append(rejected, Rejected{i, models.Errorf(models.CodeValidationFailed, "nobody can be a friend of oneself")})
			continue
		}
		users = append(users, e.A, e.B)
	}
	users = sorted(users)
	if len(users) == 0 {
		return 0, rejected, nil
	}
	err = s.change(ctx, func(t *tx) error {
		if err := t.create(users); err != nil {
			return err
		}
		counts, err := t.lock(users)
		if err != nil {
			return err
		}
		var full []Rejected
		t.changed = users
		added, full, err = t.importEdges(edges, counts)
		rejected = append(rejected, full...)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("import friends: %w", err)
	}
	return added, rejected, nil
}

// importEdges adds the edges of users that stay below the limit in bulk, and
// the others one by one.
func (t *tx) importEdges(edges []models.Edge, counts map[models.RowID]int) (added int, full []Rejected, err error) {
	most := make(map[models.RowID]int, len(counts))
	for id, n := range counts {
		most[id] = n
	}
	for _, e := range edges {
		most[e.A]++
		most[e.B]++
	}
	var bulk []models.Edge
	for i, e := range edges {
		if e.A == e.B {
			continue
		}
		if most[e.A] <= models.MaxFriends && most[e.B] <= models.MaxFriends {
			bulk = append(bulk, e)
			continue
		}
		already, err := t.areFriends(e.A, e.B)
		if err != nil {
			return 0, nil, err
		}
		if already {
			continue
		}
		if err := checkLimit(counts, e.A, e.B); err != nil {
			full = append(full, Rejected{i, err})
			continue
		}
		if _, err := t.befriend([]models.Edge{e}); err != nil {
			return 0, nil, err
		}
		counts[e.A]++
		counts[e.B]++
		added++
	}
	n, err := t.befriend(bulk)
	return added + n, full, err
}
