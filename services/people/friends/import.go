package friends

import (
	"cmp"
	"context"
	"errors"
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

// errLockFirst is the result of an import without locks that needs them: a user is full or
// gone, or a friendship was added meanwhile.
var errLockFirst = errors.New("the users must be locked first")

// Prepared are edges that were looked up, to be imported soon.
type Prepared struct {
	// Edges are the edges by the rows of their users.
	Edges []models.Edge
	// pairs holds each edge between two users who were no friends once, the lower row
	// first, ascending.
	pairs []models.Edge
	// sides are both sides of the pairs, in the order of the table's key, and gains the
	// number of pairs of each user, ascending.
	sides, gains [][2]int64
}

// Prepare looks up which of the edges are friendships already. ImportPrepared skips these,
// and those that are among edges before, which are being imported meanwhile. One transaction
// with a few statements, which locks nothing.
func (s *Service) Prepare(ctx context.Context, edges []models.Edge, before Prepared) (Prepared, error) {
	pairs := slices.DeleteFunc(distinct(edges), before.has)
	if len(pairs) == 0 {
		return Prepared{Edges: edges}, nil
	}
	err := s.store.transactOnConn(ctx, func(t *tx) (err error) {
		pairs, err = t.withoutFriends(pairs)
		return err
	})
	if err != nil {
		return Prepared{}, fmt.Errorf("import friends: %w", models.Unavailable("look up friendships", err))
	}
	return prepared(edges, pairs), nil
}

// has reports whether a pair, the lower row first, is among those to be added.
func (p Prepared) has(pair models.Edge) bool {
	_, ok := slices.BinarySearchFunc(p.pairs, pair, compareEdges)
	return ok
}

func prepared(edges, pairs []models.Edge) Prepared {
	return Prepared{Edges: edges, pairs: pairs, sides: sidesOf(pairs), gains: timesOf(usersOf(pairs))}
}

// Halves returns the first half of the edges and the others.
func (p Prepared) Halves() (first, second Prepared) {
	half := func(edges []models.Edge) Prepared {
		return prepared(edges, slices.DeleteFunc(distinct(edges), func(pair models.Edge) bool { return !p.has(pair) }))
	}
	middle := len(p.Edges) / 2
	return half(p.Edges[:middle]), half(p.Edges[middle:])
}

// Import adds friendships between users, as if they were added one after another. Edges
// that exist, in either direction, stay as they are. Edges between a user and the same
// user, those of users with too many friends, and those of users who were erased since
// their rows were looked up are skipped and returned, in order. added is the number of new
// friendships.
func (s *Service) Import(ctx context.Context, edges []models.Edge) (added int, rejected []Rejected, err error) {
	p, err := s.Prepare(ctx, edges, Prepared{})
	if err != nil {
		return 0, nil, err
	}
	return s.ImportPrepared(ctx, p)
}

// ImportPrepared is Import for edges that were prepared. One transaction with a few
// statements, in which all the users are locked, or a second one if an edge is refused or
// the same friendship was added meanwhile.
func (s *Service) ImportPrepared(ctx context.Context, p Prepared) (added int, rejected []Rejected, err error) {
	added, rejected, err = s.importPairs(ctx, p, false)
	if errors.Is(err, errLockFirst) {
		added, rejected, err = s.importPairs(ctx, p, true)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("import friends: %w", err)
	}
	for i, e := range p.Edges {
		if e.A == e.B {
			err := models.Errorf(models.CodeValidationFailed, "nobody can be a friend of oneself")
			rejected = append(rejected, Rejected{i, err})
		}
	}
	slices.SortFunc(rejected, func(a, b Rejected) int { return cmp.Compare(a.Index, b.Index) })
	return added, rejected, nil
}

// importPairs adds the edges. Without lockFirst the users are locked by counting their new
// friends. That saves a pass over all of them, but fails with errLockFirst if a pair can't
// be added, or became friends since it was looked up.
func (s *Service) importPairs(ctx context.Context, p Prepared, lockFirst bool) (added int, rejected []Rejected, err error) {
	err = s.run(ctx, s.sets.NewBulkChange(), s.store.transactOnConn, func(t *tx) error {
		// Also the lists of those who were friends already: a copy may lack the other.
		t.changed = usersOf(p.Edges)
		switch {
		case len(p.pairs) == 0:
			return nil
		case lockFirst:
			added, rejected, err = t.importLocked(p)
		default:
			added, err = len(p.pairs), t.befriendAll(p)
		}
		return err
	})
	return added, rejected, err
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

// usersOf returns both users of each edge that is not between a user and the same user.
func usersOf(edges []models.Edge) []models.RowID {
	users := make([]models.RowID, 0, 2*len(edges))
	for _, e := range edges {
		if e.A != e.B {
			users = append(users, e.A, e.B)
		}
	}
	return users
}

// importLocked adds the edges that can be added, and returns those of full users and of
// users who do not exist.
func (t *tx) importLocked(p Prepared) (added int, rejected []Rejected, err error) {
	above, gone, err := t.lockForImport(p.gains)
	if err != nil {
		return 0, nil, err
	}
	pairs, err := t.withoutFriends(p.pairs)
	if err != nil {
		return 0, nil, err
	}
	if len(gone) > 0 {
		pairs, rejected = withoutUsers(p.Edges, pairs, gone)
	}
	if len(above) > 0 {
		var full []Rejected
		pairs, full = withinLimit(p.Edges, pairs, above)
		rejected = append(rejected, full...)
	}
	if len(pairs) == 0 {
		return 0, rejected, nil
	}
	return len(pairs), rejected, t.befriendAll(prepared(p.Edges, pairs))
}

// withoutUsers removes the pairs of users who do not exist, and returns their edges, too.
func withoutUsers(
	edges, pairs []models.Edge, gone map[models.RowID]bool,
) (left []models.Edge, rejected []Rejected) {
	for _, pair := range pairs {
		if !gone[pair.A] && !gone[pair.B] {
			left = append(left, pair)
		}
	}
	for i, e := range edges {
		if e.A != e.B && (gone[e.A] || gone[e.B]) {
			err := models.Errorf(models.CodeUserNotFound, "a user was erased during the import")
			rejected = append(rejected, Rejected{i, err})
		}
	}
	return left, rejected
}

// withinLimit removes from pairs, which are no friends, those that would give a user too
// many friends, and returns their edges, too. Only the given users may have too many.
func withinLimit(
	edges, pairs []models.Edge, above map[models.RowID]lockedUser,
) (within []models.Edge, full []Rejected) {
	added := make(map[models.Edge]bool) // false for a pair that is not added yet
	for _, pair := range pairs {
		_, a := above[pair.A]
		_, b := above[pair.B]
		if a || b {
			added[pair] = false
		} else {
			within = append(within, pair)
		}
	}
	accepted, full := applyLimit(edges, added, above)
	return append(within, accepted...), full
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
