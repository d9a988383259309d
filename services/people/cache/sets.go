package cache

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/platform/batch"
)

// ChangeTimeout bounds a change from its first mark to its commit, well below the
// lifetime of a mark: that must last until the change has committed or can't commit
// any more.
const ChangeTimeout = 10 * time.Second

// Load reads the members of several owners' sets from their truth. Owners whose sets are empty
// may be left out.
type Load[Owner ~int64] func(ctx context.Context, owners []Owner) (map[Owner][]models.RowID, error)

const (
	// loadSets is how many sets one call of Load reads, unless a single one is missing.
	loadSets = 64
	// loadWorkers is how many calls of Load may run at the same time.
	loadWorkers = 4
)

// Sets is a read-through cache of one kind of sets. Each set belongs to an owner.
// Safe for concurrent use.
type Sets[Owner ~int64] struct {
	copies Copies
	kind   keys.Sets
	load   Load[Owner]
	loads  *batch.Batcher[*missing[Owner]]
	log    *slog.Logger
}

// Copies holds copies of sets of all kinds, and keeps none that a change has made outdated:
// Store, or Local for the only process on its stores.
type Copies interface {
	// find returns the copies of sets, by position. After an error none is found.
	find(ctx context.Context, of ...Set) ([]copied, error)
	// load returns a set that was not found, and keeps a copy unless a change prevents that. found
	// and findErr are what find has returned.
	load(ctx context.Context, of Set, found copied, findErr error, s source) (members []models.RowID, stored bool, err error)
	// nearCache returns the copies of copies in the process; nil for none.
	nearCache() Near

	// mark announces a change before its commit; after an error it must not be committed. clear
	// follows the commit, and keep follows a commit whose outcome is unknown.
	mark(ctx context.Context, w writer, sets []Set) error
	clear(ctx context.Context, w writer, sets []Set) error
	keep(ctx context.Context, w writer, sets []Set) error

	// RemoveOf removes the copies that belong to users who were erased, and returns how many keys
	// Redis had of them. It is no change of the sets: their truth is empty.
	RemoveOf(ctx context.Context, users []models.RowID) (removed int64, err error)
	// DropAll drops the sets of all kinds and owners, which are loaded again on their next read.
	DropAll(ctx context.Context) error
}

// ofUsers are the kinds of sets whose owners are users.
var ofUsers = []keys.Sets{keys.Friends, keys.NotShown}

// source is the truth of a set.
type source struct {
	read func(context.Context) ([]models.RowID, error)
	log  *slog.Logger // says that a copy could not be stored
}

// writer is who makes a change.
type writer struct {
	token string
	// bulk says that the change is of very many sets.
	bulk bool
	// gone is the member that the change removes from sets; 0 for any other change.
	gone models.RowID
}

// missing is a set that is read from its truth.
type missing[Owner ~int64] struct {
	owner   Owner
	members []models.RowID
}

// New returns a cache of one kind of sets, which are loaded by load.
func New[Owner ~int64](copies Copies, kind keys.Sets, load Load[Owner], log *slog.Logger) *Sets[Owner] {
	s := &Sets[Owner]{copies: copies, kind: kind, load: load, log: log}
	s.loads = batch.New(loadSets, loadWorkers, s.loadAll)
	return s
}

// loadAll reads sets from their truth for several callers, who may have asked for the same one.
// Each gets members of its own, because it may change them.
func (s *Sets[Owner]) loadAll(ctx context.Context, sets []*missing[Owner]) []error {
	owners := make([]Owner, len(sets))
	for i, set := range sets {
		owners[i] = set.owner
	}
	slices.Sort(owners)
	found, err := s.load(ctx, slices.Compact(owners))
	if err != nil {
		return slices.Repeat([]error{err}, len(sets))
	}
	for _, set := range sets {
		set.members = slices.Clone(found[set.owner])
	}
	return nil
}

// SetsOf returns the sets of a kind of owners, by position.
func SetsOf[Owner ~int64](kind keys.Sets, owners []Owner) []Set {
	sets := make([]Set, len(owners))
	for i, owner := range owners {
		sets[i] = Set{Kind: kind, Owner: int64(owner)}
	}
	return sets
}

func (s *Sets[Owner]) set(owner Owner) Set { return Set{Kind: s.kind, Owner: int64(owner)} }

// Members returns the members of an owner's set, in no particular order; the caller may change
// them. One round trip to Redis if the set is stored. On a miss one call of Load and two more
// round trips, by one reader at a time; readers of different sets that are missing at the same
// time share them. If Redis is away the set is read from its truth. With Local there is no round
// trip, and on a miss one call of Load. An error means that the truth could not be read.
func (s *Sets[Owner]) Members(ctx context.Context, owner Owner) ([]models.RowID, error) {
	members, _, err := s.read(ctx, owner)
	return members, err
}

// Near returns the members of an owner's set from the near cache, if it has them and can
// prove that they are recent enough. All changes that were complete before asOf are in
// them, and all complete ones of this process. Otherwise, and without a near cache, it
// is Members, and asOf is zero.
func (s *Sets[Owner]) Near(ctx context.Context, owner Owner) (members []models.RowID, asOf time.Time, err error) {
	read := func(ctx context.Context) ([]models.RowID, bool, error) { return s.read(ctx, owner) }
	near := s.copies.nearCache()
	if near == nil {
		members, _, err = read(ctx)
		return members, time.Time{}, err
	}
	return near.Members(ctx, s.set(owner), read)
}

// Pair is Members of two sets, which may be of different kinds. Both are read in the same
// round trip.
func Pair[A, B ~int64](
	ctx context.Context, a *Sets[A], ownerA A, b *Sets[B], ownerB B,
) (membersA, membersB []models.RowID, err error) {
	found, findErr := a.copies.find(ctx, a.set(ownerA), b.set(ownerB))
	if membersA, _, err = a.complete(ctx, ownerA, found[0], findErr); err != nil {
		return nil, nil, err
	}
	membersB, _, err = b.complete(ctx, ownerB, found[1], findErr)
	return membersA, membersB, err
}

// read is Members, which also reports whether there is a copy of the set. While a change is
// under way there is none.
func (s *Sets[Owner]) read(ctx context.Context, owner Owner) (members []models.RowID, stored bool, err error) {
	found, findErr := s.copies.find(ctx, s.set(owner))
	return s.complete(ctx, owner, found[0], findErr)
}

// complete returns the set that was found, or else loads it. findErr is the error of looking for
// a copy.
func (s *Sets[Owner]) complete(
	ctx context.Context, owner Owner, found copied, findErr error,
) (members []models.RowID, stored bool, err error) {
	if found.found {
		return found.members, true, nil
	}
	read := func(ctx context.Context) ([]models.RowID, error) {
		set := &missing[Owner]{owner: owner}
		err := s.loads.Submit(ctx, []*missing[Owner]{set})
		return set.members, err
	}
	return s.copies.load(ctx, s.set(owner), found, findErr, source{read, s.log})
}

// Change keeps the copies true through one change of sets. Its writer calls Mark
// before the commit, and Clear after it or after a rollback. If it is unknown whether
// the change was committed, it calls Keep instead. Not safe for concurrent use.
type Change[Owner ~int64] struct {
	sets   *Sets[Owner]
	writer writer
	marked []Set
}

// NewChange begins a change.
func (s *Sets[Owner]) NewChange() *Change[Owner] {
	return &Change[Owner]{sets: s, writer: writer{token: newToken()}}
}

// NewBulkChange begins a change of thousands of sets. It marks their stripes instead of
// each set, at a tenth of the cost. Until Clear, no set of these stripes is stored;
// sets of others in Redis stay in use.
func (s *Sets[Owner]) NewBulkChange() *Change[Owner] {
	return &Change[Owner]{sets: s, writer: writer{token: newToken(), bulk: true}}
}

// NewRemoval begins a change that does no more to sets than to remove one member. Copies
// lose the member and stay in use, so that thousands of sets need not be loaded again.
// Members must be right without it whether or not the change is committed, as they are
// without a user who was erased.
func (s *Sets[Owner]) NewRemoval(gone models.RowID) *Change[Owner] {
	return &Change[Owner]{sets: s, writer: writer{token: newToken(), gone: gone}}
}

// Mark removes the copies of the owners' sets, each once, and prevents new ones. After an error
// the change must not be committed. One round trip for each thousand owners, two in a
// cluster; in a bulk change two for each ten thousand.
func (c *Change[Owner]) Mark(ctx context.Context, owners []Owner) error {
	return c.MarkOf(ctx, SetsOf(c.sets.kind, slices.Compact(slices.Sorted(slices.Values(owners)))))
}

// MarkOf is Mark for sets of any kind, which the same change is about.
func (c *Change[Owner]) MarkOf(ctx context.Context, sets []Set) error {
	c.marked = append(c.marked, sets...)
	if err := c.sets.copies.mark(ctx, c.writer, sets); err != nil {
		return err
	}
	failpoint.Hit("caches.marked")
	return nil
}

// Clear removes the copies again and ends the change's marks. If it can't, it logs
// that, and the sets are read from their truth until the marks expire. One round
// trip for each thousand owners, two in a cluster; in a bulk change two for each ten
// thousand.
func (c *Change[Owner]) Clear(ctx context.Context) {
	if err := c.sets.copies.clear(ctx, c.writer, c.marked); err != nil {
		c.sets.log.WarnContext(ctx, "sets stay uncached until their marks expire", "kind", c.sets.kind, "error", err)
	}
}

// Keep makes the marks last as long as a set, because the change may be committed much
// later, when its commit waits for a standby for instance. Until then nothing is
// stored. A bulk change gets a mark for each set, so that others of its stripes can be
// stored. One round trip for each thousand owners.
func (c *Change[Owner]) Keep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	if err := c.sets.copies.keep(ctx, c.writer, c.marked); err != nil {
		c.sets.log.WarnContext(ctx, "the marks of a change whose outcome is unknown expire in a minute", "kind", c.sets.kind, "error", err)
	}
}

// Run runs commit, which makes the change in SQL and calls Mark before it commits, and then
// ends the change. An error of commit that is a *models.Error means that nothing has been
// committed. After any other it is unknown, so the marks are kept, and Run returns
// CodeUnavailable for the operation.
//
// The change continues if the client disconnects, because half a change is of no use. It
// is cancelled after ChangeTimeout.
func (c *Change[Owner]) Run(ctx context.Context, operation string, commit func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ChangeTimeout)
	defer cancel()
	err := commit(ctx)
	var refused *models.Error
	if err != nil && !errors.As(err, &refused) {
		c.Keep(ctx)
		return models.Unavailable(operation, err)
	}
	if err == nil {
		failpoint.Hit("caches.committed")
	}
	c.Clear(ctx)
	failpoint.Hit("caches.cleared")
	return err
}
