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
// zero edge. The row of a user whom only signing up makes is 0 if there is no such user. The cost is that of EnsureMany.
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

// errLockFirst is the result of an import that needs its users locked first: one is full or
// gone, or a friendship was added since it was looked up.
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
// and those that are among edges before, which are being imported meanwhile. One query,
// which locks nothing.
func (s *Service) Prepare(ctx context.Context, edges []models.Edge, before Prepared) (Prepared, error) {
	pairs := slices.DeleteFunc(distinct(edges), before.has)
	friends, err := s.store.areFriends(ctx, pairs)
	if err != nil {
		return Prepared{}, fmt.Errorf("import friends: %w", models.Unavailable("look up friendships", err))
	}
	return prepared(edges, slices.DeleteFunc(pairs, func(pair models.Edge) bool { return friends[pair] })), nil
}

// has reports whether a pair, the lower row first, is among those to be added.
func (p Prepared) has(pair models.Edge) bool {
	_, ok := slices.BinarySearchFunc(p.pairs, pair, compareEdges)
	return ok
}

func prepared(edges, pairs []models.Edge) Prepared {
	return Prepared{Edges: edges, pairs: pairs, sides: sidesOf(pairs), gains: timesOf(usersOf(pairs), +1)}
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
// statements, in which all the users are locked. If an edge is refused, or the same friendship
// was added meanwhile, the edges are prepared again, and the users are locked first.
func (s *Service) ImportPrepared(ctx context.Context, p Prepared) (added int, rejected []Rejected, err error) {
	for lockFirst := false; ; lockFirst = true {
		err = s.run(ctx, s.sets.NewBulkChange(), s.store.transactOnConn, func(t *tx) error {
			// Also the lists of those who were friends already: a copy may lack the other.
			t.changed = usersOf(p.Edges)
			if lockFirst {
				p, rejected, err = t.lockAll(p)
				if err != nil {
					return err
				}
			}
			added = len(p.pairs)
			return t.befriendAll(p)
		})
		if !errors.Is(err, errLockFirst) {
			break
		}
		if p, err = s.Prepare(ctx, p.Edges, Prepared{}); err != nil {
			return 0, nil, err
		}
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

func compareEdges(a, b models.Edge) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) }

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

// timesOf returns each of the users, ascending, with the number of times that the list
// has them, times a factor. It sorts the list.
func timesOf(users []models.RowID, factor int64) [][2]int64 {
	slices.Sort(users)
	var times [][2]int64
	for i, user := range users {
		if i == 0 || user != users[i-1] {
			times = append(times, [2]int64{int64(user), 0})
		}
		times[len(times)-1][1] += factor
	}
	return times
}

// rowsOf returns edges as rows of two numbers.
func rowsOf(edges []models.Edge) [][2]int64 {
	rows := make([][2]int64, len(edges))
	for i, edge := range edges {
		rows[i] = [2]int64{int64(edge.A), int64(edge.B)}
	}
	return rows
}

// sidesOf returns both sides of the pairs in the order of the table's key, so that
// neighbours are inserted next to each other.
func sidesOf(pairs []models.Edge) [][2]int64 {
	sides := make([]models.Edge, 0, 2*len(pairs))
	for _, pair := range pairs {
		sides = append(sides, pair, models.Edge{A: pair.B, B: pair.A})
	}
	slices.SortFunc(sides, compareEdges)
	return rowsOf(sides)
}

// lockAll locks the users. It returns the edges that can be added, and those of full users and
// of users who do not exist.
func (t *tx) lockAll(p Prepared) (Prepared, []Rejected, error) {
	locked, err := t.lock(p.users()...)
	if err != nil {
		return p, nil, err
	}
	pairs, rejected := p.addTo(locked)
	return prepared(p.Edges, pairs), rejected, nil
}

// users returns the users of the pairs, ascending.
func (p Prepared) users() []models.RowID {
	users := make([]models.RowID, len(p.gains))
	for i, gain := range p.gains {
		users[i] = models.RowID(gain[0])
	}
	return users
}

// befriendAll counts the pairs for their users, stores both sides of them, and removes the
// requests between them. errLockFirst if a user is full or gone, or a pair is friends by now.
// Counting locks the users: that saves a pass over all of them.
func (t *tx) befriendAll(p Prepared) error {
	if len(p.pairs) == 0 {
		return nil
	}
	if err := t.inOrder(); err != nil {
		return err
	}
	counted, err := t.count(p.gains)
	if err != nil {
		return err
	}
	if counted < int64(len(p.gains)) {
		return errLockFirst
	}
	if err := t.store(p.sides); err != nil {
		return err
	}
	return t.removeAnsweredRequests(p.users())
}

// addTo adds the edges one after another to what the users have, as long as they exist and
// have room. It returns the pairs that were added and the edges that were not.
func (p Prepared) addTo(users map[models.RowID]lockedUser) (pairs []models.Edge, rejected []Rejected) {
	added := make(map[models.Edge]bool)
	for i, e := range p.Edges {
		pair := ordered(e)
		if added[pair] || !p.has(pair) {
			continue
		}
		a, existsA := users[e.A]
		b, existsB := users[e.B]
		err := checkLimit(users, e.A, e.B)
		if !existsA || !existsB {
			err = models.Errorf(models.CodeUserNotFound, "a user was erased during the import")
		}
		if err != nil {
			rejected = append(rejected, Rejected{i, err})
			continue
		}
		a.friends++
		b.friends++
		users[e.A], users[e.B] = a, b
		added[pair] = true
		pairs = append(pairs, pair)
	}
	return pairs, rejected
}
