package friends

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"stepboard/models"
)

// Edge is a friendship between two users, in either order.
type Edge struct{ A, B models.UserID }

// Rejected is an edge that could not be imported.
type Rejected struct {
	// Index is the edge's position, from 0.
	Index int
	Err   error
}

// Resolve returns the edges by the rows of their users, and creates the users that do
// not exist. An edge between a user and the same user creates nobody, and becomes the
// zero edge. A few statements, however many edges.
func (s *Service) Resolve(ctx context.Context, edges []Edge) ([]models.Edge, error) {
	users := make([]models.UserID, 0, 2*len(edges))
	for _, e := range edges {
		if e.A != e.B {
			users = append(users, e.A, e.B)
		}
	}
	rows, err := s.directory.EnsureMany(ctx, users)
	if err != nil {
		return nil, fmt.Errorf("import friends: %w", err)
	}
	resolved := make([]models.Edge, len(edges))
	for i, e := range edges {
		if e.A != e.B {
			resolved[i] = models.Edge{A: rows[0], B: rows[1]}
			rows = rows[2:]
		}
	}
	return resolved, nil
}

// Import adds friendships between users that exist, as if they were added one after
// another. Edges that exist, in either direction, stay as they are. Edges between a user
// and the same user, and those of users with too many friends, are skipped and returned,
// in order. added is the number of new friendships. One transaction with a few
// statements, which locks all the users.
func (s *Service) Import(ctx context.Context, edges []models.Edge) (added int, rejected []Rejected, err error) {
	pairs := distinct(edges)
	if len(pairs) > 0 {
		err = s.run(ctx, s.sets.NewBulkChange(), s.store.transactOnConn, func(t *tx) error {
			t.changed = usersOf(pairs)
			added, rejected, err = t.importEdges(edges, pairs)
			return err
		})
		if err != nil {
			return 0, nil, fmt.Errorf("import friends: %w", err)
		}
	}
	for i, e := range edges {
		if e.A == e.B {
			err := models.Errorf(models.CodeValidationFailed, "nobody can be a friend of oneself")
			rejected = append(rejected, Rejected{i, err})
		}
	}
	slices.SortFunc(rejected, func(a, b Rejected) int { return cmp.Compare(a.Index, b.Index) })
	return added, rejected, nil
}

// ordered returns the edge with the lower row first.
func ordered(e models.Edge) models.Edge { return models.Edge{A: min(e.A, e.B), B: max(e.A, e.B)} }

// distinct returns each edge between two users once, the lower row first, ascending.
func distinct(edges []models.Edge) []models.Edge {
	pairs := make([]models.Edge, 0, len(edges))
	for _, e := range edges {
		if e.A != e.B {
			pairs = append(pairs, ordered(e))
		}
	}
	slices.SortFunc(pairs, compareEdges)
	return slices.Compact(pairs)
}

func compareEdges(a, b models.Edge) int {
	if a.A != b.A {
		return cmp.Compare(a.A, b.A)
	}
	return cmp.Compare(a.B, b.B)
}

func usersOf(pairs []models.Edge) []models.RowID {
	users := make([]models.RowID, 0, 2*len(pairs))
	for _, pair := range pairs {
		users = append(users, pair.A, pair.B)
	}
	return users
}

// importEdges adds the edges; pairs holds each of them once.
func (t *tx) importEdges(edges, pairs []models.Edge) (added int, full []Rejected, err error) {
	above, err := t.lockForImport(pairs)
	if err != nil {
		return 0, nil, err
	}
	if len(above) > 0 {
		if pairs, full, err = t.withinLimit(edges, pairs, above); err != nil {
			return 0, nil, err
		}
	}
	added, err = t.befriendPairs(pairs)
	return added, full, err
}

// withinLimit removes from pairs those that are friends, or would give a user too many of
// them. Only the given users may have too many. It returns the edges of the latter, too.
func (t *tx) withinLimit(
	edges, pairs []models.Edge, above map[models.RowID]lockedUser,
) (within []models.Edge, full []Rejected, err error) {
	candidates := make(map[models.RowID][]models.RowID, len(above))
	added := make(map[models.Edge]bool) // false for a pair that is not added yet
	for _, pair := range pairs {
		_, a := above[pair.A]
		_, b := above[pair.B]
		switch {
		case a:
			candidates[pair.A] = append(candidates[pair.A], pair.B)
			added[pair] = false
		case b:
			candidates[pair.B] = append(candidates[pair.B], pair.A)
			added[pair] = false
		default:
			within = append(within, pair)
		}
	}
	for user, others := range candidates {
		friends, err := t.friendsAmong(user, others)
		if err != nil {
			return nil, nil, err
		}
		for _, friend := range friends {
			delete(added, ordered(models.Edge{A: user, B: friend}))
		}
	}
	accepted, full := applyLimit(edges, added, above)
	return append(within, accepted...), full, nil
}

// applyLimit adds edges one after another, as long as their users have room, and returns
// the pairs that were added and the edges that were not. added has the new friendships of
// the given users, each false at first; other edges are not looked at.
func applyLimit(
	edges []models.Edge, added map[models.Edge]bool, users map[models.RowID]lockedUser,
) (accepted []models.Edge, rejected []Rejected) {
	for i, e := range edges {
		done, isNew := added[ordered(e)]
		if done || !isNew {
			continue
		}
		if err := checkLimit(users, e.A, e.B); err != nil {
			rejected = append(rejected, Rejected{i, err})
			continue
		}
		for _, row := range [...]models.RowID{e.A, e.B} {
			if user, ok := users[row]; ok {
				user.friends++
				users[row] = user
			}
		}
		added[ordered(e)] = true
		accepted = append(accepted, ordered(e))
	}
	return accepted, rejected
}
