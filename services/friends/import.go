package friends

import (
	"context"
	"fmt"
	"maps"
	"slices"

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
func (s *Service) Import(ctx context.Context, edges []Edge) (added int, rejected []Rejected, err error) {
	var users []models.UserID
	for i, e := range edges {
		if e.A == e.B {
			rejected = append(rejected, Rejected{i, models.Errorf(models.CodeValidationFailed, "nobody can be a friend of oneself")})
			continue
		}
		users = append(users, e.A, e.B)
	}
	if len(users) == 0 {
		return 0, rejected, nil
	}
	rowOf, err := s.ensureAll(ctx, users)
	if err != nil {
		return 0, nil, fmt.Errorf("import friends: %w", err)
	}
	rows := slices.Sorted(maps.Values(rowOf))
	edgesOf := make([]models.Edge, len(edges))
	for i, e := range edges {
		edgesOf[i] = models.Edge{A: rowOf[e.A], B: rowOf[e.B]} // 0 and 0 for a rejected one
	}
	err = s.change(ctx, func(t *tx) error {
		locked, err := t.lock(rows)
		if err != nil {
			return err
		}
		var full []Rejected
		t.changed = rows
		added, full, err = t.importEdges(edgesOf, locked)
		rejected = append(rejected, full...)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("import friends: %w", err)
	}
	return added, rejected, nil
}

// Edge is a friendship between two users, in either order.
type Edge struct{ A, B models.UserID }

// ensureAll returns the rows of users, some of which may be named several times. It
// creates those that do not exist.
func (s *Service) ensureAll(ctx context.Context, users []models.UserID) (map[models.UserID]models.RowID, error) {
	slices.Sort(users)
	users = slices.Compact(users)
	rows, err := s.directory.Ensure(ctx, users...)
	if err != nil {
		return nil, err
	}
	rowOf := make(map[models.UserID]models.RowID, len(users))
	for i, user := range users {
		rowOf[user] = rows[i]
	}
	return rowOf, nil
}

// importEdges adds the edges of users that stay below the limit in bulk, and
// the others one by one.
func (t *tx) importEdges(edges []models.Edge, locked map[models.RowID]lockedUser) (added int, full []Rejected, err error) {
	most := make(map[models.RowID]int, len(locked))
	for row, user := range locked {
		most[row] = user.friends
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
		if err := checkLimit(locked, e.A, e.B); err != nil {
			full = append(full, Rejected{i, err})
			continue
		}
		if _, err := t.befriend([]models.Edge{e}); err != nil {
			return 0, nil, err
		}
		for _, row := range [...]models.RowID{e.A, e.B} {
			user := locked[row]
			user.friends++
			locked[row] = user
		}
		added++
	}
	n, err := t.befriend(bulk)
	return added + n, full, err
}
