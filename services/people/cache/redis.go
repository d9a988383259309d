package cache

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/failpoint"
	"stepboard/internal/keys"
	"stepboard/internal/pause"
	"stepboard/internal/spread"
	"stepboard/models"
	"stepboard/services/platform/batch"
)

const (
	// markTTL is how long the mark of a writer that died prevents its sets from
	// being stored. No change lasts that long: ChangeTimeout cancels it first.
	markTTL = time.Minute
	// keepTimeout bounds how long a change of unknown outcome waits for its marks to
	// be kept. For a hundred thousand sets that takes half a second.
	keepTimeout = 2 * time.Second
	// loadingTTL is how long the claim of a reader that died prevents others from
	// storing a set.
	loadingTTL = 10 * time.Second
	// setTTL is the default of the longest lifetime of a set. Each set gets up to a tenth less,
	// so that sets that were stored together do not expire together.
	setTTL = time.Hour
	// storeTimeout bounds how long a reader waits for its set to be stored, for
	// example while the set's slot moves to another server of a cluster.
	storeTimeout = time.Second
)

// Store keeps cached sets of all kinds in Redis. Safe for concurrent use.
type Store struct {
	rdb     redis.UniversalClient
	keys    keys.Builder
	streams int
	ttl     time.Duration
	near    Near // nil without a near cache

	// claims and stores gather the commands of readers that miss sets at the same time.
	claims *batch.Batcher[*loading]
	stores *batch.Batcher[*loading]
}

// NewStore returns a store over the client, whose sets last no longer than ttl: a minute or
// more; 0 means an hour. Sets.Near reads through near, which may be nil.
func NewStore(rdb redis.UniversalClient, names keys.Builder, ttl time.Duration, near Near) *Store {
	s := &Store{rdb: rdb, keys: names, streams: streamsOf(rdb), ttl: cmp.Or(ttl, setTTL), near: near}
	s.claims = batch.New(tripSets, tripWorkers, s.claimAll)
	s.stores = batch.New(tripSets, tripWorkers, s.storeAll)
	return s
}

// Set identifies a cached set.
type Set struct {
	Kind keys.Sets
	// Owner is the number of what the set belongs to: the row id of a user, for example.
	Owner int64
}

// copied is the copy of a set.
type copied struct {
	// members is the set, if found.
	members []models.RowID
	found   bool
	// generation is the current one, "" if the set's stripe has none, and in memory.
	generation string
}

// get is find for one set.
func (s *Store) get(ctx context.Context, of Set) (copied, error) {
	found, err := s.find(ctx, of)
	return found[0], err
}

// find reads sets and then the current generation of each. A set of another generation is
// not found, so one that is found was read before its generation ended. One round trip.
func (s *Store) find(ctx context.Context, of ...Set) ([]copied, error) {
	pipe := s.rdb.Pipeline()
	stored, generations := make([]*redis.StringSliceCmd, len(of)), make([]*redis.StringCmd, len(of))
	for i, set := range of {
		stored[i] = pipe.SMembers(ctx, s.keys.Set(set.Kind, set.Owner))
		generations[i] = pipe.Get(ctx, s.keys.SetsGeneration(keys.StripeOf(set.Owner)))
	}
	none := make([]copied, len(of))
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return none, fmt.Errorf("read cached set: %w", err)
	}
	found := make([]copied, len(of))
	for i, set := range of {
		if err := errors.Join(stored[i].Err(), exceptNil(generations[i].Err())); err != nil {
			return none, fmt.Errorf("read cached set: %w", err)
		}
		c, err := copied{generation: generations[i].Val()}, error(nil)
		if c.members, c.found, err = parseSet(stored[i].Val(), c.generation); err != nil {
			return none, fmt.Errorf("set %s of %d: %w", set.Kind, set.Owner, err)
		}
		found[i] = c
	}
	return found, nil
}

// exceptNil returns an error of a command unless it says that the key does not exist.
func exceptNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// parseSet returns the row ids of a stored set; found is false unless its stamp is
// that of the generation.
func parseSet(stored []string, generation string) (members []models.RowID, found bool, err error) {
	members = make([]models.RowID, 0, len(stored)) // without the stamp there is room for one more
	for _, member := range stored {
		if strings.HasPrefix(member, "-") {
			if found = generation != "" && member[1:] == generation; !found {
				return nil, false, nil
			}
			continue
		}
		id, err := models.ParseRowID(member)
		if err != nil {
			return nil, false, fmt.Errorf("member %q: %w", member, err)
		}
		members = append(members, id)
	}
	if !found {
		return nil, false, nil
	}
	return members, true, nil
}

const (
	// awaitPause and awaitTries bound how long a reader that may not load waits for
	// the set that another one is loading.
	awaitPause = 5 * time.Millisecond
	awaitTries = 20
)

// await waits for the set that another reader is loading. It is not found if it is
// not stored in time.
func (s *Store) await(ctx context.Context, of Set) (c copied, err error) {
	for range awaitTries {
		if err := pause.For(ctx, awaitPause); err != nil {
			return copied{}, err
		}
		if c, err = s.get(ctx, of); c.found || err != nil {
			break
		}
	}
	return c, err
}

// newToken returns a random token, which identifies one writer or one reader.
func newToken() string { return rand.Text() }

// newGeneration returns a random generation. It is hardly ever one that was used
// before, even if Redis went back in time and has forgotten which were. In a set it
// takes four bytes, as a row id does.
func newGeneration() string {
	return strconv.Itoa(1 + mathrand.IntN(math.MaxInt32)) //nolint:gosec // it is no secret
}

// claim is a reader's right to load a set, and the generation that it began in.
type claim struct{ token, generation string }

// beginLoad claims the right to load a set; one reader at a time is granted it. It
// must precede the reading of the set's truth. The generation is the one that get
// has returned. One round trip, two in a stripe without a generation.
func (s *Store) beginLoad(ctx context.Context, of Set, generation string) (c claim, granted bool, err error) {
	if generation == "" {
		if generation, err = s.firstGeneration(ctx, keys.StripeOf(of.Owner)); err != nil {
			return claim{}, false, err
		}
	}
	l := &loading{of: of, claim: claim{token: newToken(), generation: generation}}
	if err := s.claims.Submit(ctx, []*loading{l}); err != nil {
		return claim{}, false, fmt.Errorf("claim cached set: %w", err)
	}
	return l.claim, l.granted, nil
}

// load implements Copies. One reader at a time loads a set; the others wait for it.
func (s *Store) load(ctx context.Context, of Set, found copied, findErr error, src source) (members []models.RowID, stored bool, err error) {
	var (
		c       claim
		granted bool
	)
	if findErr == nil {
		c, granted, findErr = s.beginLoad(ctx, of, found.generation)
	}
	if findErr == nil && !granted {
		if found, findErr = s.await(ctx, of); found.found {
			return found.members, true, nil
		}
	}
	if granted {
		failpoint.Hit("caches.claimed")
	}
	if members, err = src.read(ctx); err != nil {
		return nil, false, errors.Join(err, findErr)
	}
	if granted {
		failpoint.Hit("caches.loaded")
		if stored, err = s.store(ctx, of, c, members); err != nil {
			src.log.WarnContext(ctx, "a cached set could not be stored", "kind", of.Kind, "error", err)
		}
		failpoint.Hit("caches.stored")
	}
	return members, stored, nil
}

const (
	// tripSets is how many sets are claimed or stored in one round trip, and tripWorkers how
	// many of these round trips there may be at the same time.
	tripSets    = 64
	tripWorkers = 2
)

// loading is a set that one reader loads.
type loading struct {
	of      Set
	claim   claim
	granted bool // the claim
	members []models.RowID
	stored  bool
}

// claimAll claims the right to load sets for several readers. One round trip.
func (s *Store) claimAll(ctx context.Context, sets []*loading) []error {
	pipe, cmds := s.rdb.Pipeline(), make([]*redis.StatusCmd, len(sets))
	for i, l := range sets {
		key := s.keys.SetLoading(l.of.Kind, l.of.Owner)
		cmds[i] = pipe.SetArgs(ctx, key, l.claim.token, redis.SetArgs{Mode: "NX", TTL: loadingTTL})
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	errs := make([]error, len(sets))
	for i, l := range sets {
		errs[i] = exceptNil(cmds[i].Err())
		l.granted = cmds[i].Err() == nil
	}
	return errs
}

// firstGeneration gives a stripe a generation, unless it has one by now, and
// returns the stripe's.
func (s *Store) firstGeneration(ctx context.Context, stripe int) (string, error) {
	key := s.keys.SetsGeneration(stripe)
	pipe := s.rdb.Pipeline()
	pipe.SetNX(ctx, key, newGeneration(), 0)
	generation := pipe.Get(ctx, key)
	_, err := pipe.Exec(ctx)
	return generation.Val(), models.Wrap("begin generation of cached sets", err)
}

// storeScript stores a set that was read from its truth, unless a change is in
// progress or began after the reader. In both cases it ends the reader's claim, so that
// the next reader may load. If the generation has changed since the claim, the set has
// the stamp of the old one and is never found.
//
//	KEYS    set, loading, the marks of the set and of its stripe
//	ARGV    the reader's token, the set's lifetime and a mark's in ms, the stamp, row
//	        ids…
//	result  1 if stored, 0 if not
const storeScript = `
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[2])
local marked = false
for i = 3, 4 do
  local mark = redis.call('PTTL', KEYS[i])
  if mark == -1 then
    redis.call('PEXPIRE', KEYS[i], ARGV[3])
  end
  marked = marked or mark ~= -2
end
if marked then
  return 0
end
redis.call('DEL', KEYS[1])
for i = 4, #ARGV, 1000 do
  redis.call('SADD', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`

// store stores the set that the reader with the claim has read, if it is allowed, and
// reports whether it was. A set that was not stored is loaded again by the next reader.
// One round trip.
func (s *Store) store(ctx context.Context, of Set, c claim, members []models.RowID) (stored bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	l := &loading{of: of, claim: c, members: members}
	if err := s.stores.Submit(ctx, []*loading{l}); err != nil {
		return false, fmt.Errorf("store cached set: %w", err)
	}
	return l.stored, nil
}

// storeAll stores the sets of several readers. One round trip.
func (s *Store) storeAll(ctx context.Context, sets []*loading) []error {
	pipe, cmds := s.rdb.Pipeline(), make([]*redis.Cmd, len(sets))
	for i, l := range sets {
		of, ttl := l.of, s.ttl-spread.Of(l.of.Owner, s.ttl/10)
		args := make([]any, 0, 4+len(l.members))
		args = append(args, l.claim.token, ttl.Milliseconds(), markTTL.Milliseconds(), "-"+l.claim.generation)
		for _, id := range l.members {
			args = append(args, int64(id))
		}
		names := []string{
			s.keys.Set(of.Kind, of.Owner), s.keys.SetLoading(of.Kind, of.Owner),
			s.keys.SetChanging(of.Kind, of.Owner), s.keys.SetsChanging(keys.StripeOf(of.Owner)),
		}
		cmds[i] = pipe.Eval(ctx, storeScript, names, args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	errs := make([]error, len(sets))
	for i, l := range sets {
		l.stored, errs[i] = cmds[i].Bool()
	}
	return errs
}

// mark announces a change: from now on nobody stores the sets, and stored ones are
// removed, whatever their generation, or lose the gone member if it is not 0. It must
// succeed before the change commits.
//
// Each writer's token is a member of its own, so that a writer that is done does not
// remove the mark of another. If the connection breaks before a mark has its expiry,
// the next reader sets it (storeScript). One round trip for each thousand sets, two in
// a cluster.
func (s *Store) mark(ctx context.Context, w writer, sets []Set) error {
	if w.bulk {
		return s.markStripes(ctx, w.token, sets)
	}
	return s.change(ctx, sets, func(pipe redis.Pipeliner, of Set) {
		changing := s.keys.SetChanging(of.Kind, of.Owner)
		pipe.SAdd(ctx, changing, w.token)
		pipe.PExpire(ctx, changing, markTTL)
		s.remove(ctx, pipe, of, w.gone)
	})
}

// keep makes the marks of sets last as long as a set, and sets those that are missing, as
// after markStripes. A later change of the same sets may shorten them again: it has
// waited for the locks of the earlier one, whose outcome is known by then. One round
// trip for each thousand sets, and clearStripes after a bulk change.
func (s *Store) keep(ctx context.Context, w writer, sets []Set) error {
	defer s.forget(sets)
	for chunk := range slices.Chunk(sets, setsPerTrip) {
		pipe := s.rdb.Pipeline()
		for _, of := range chunk {
			changing := s.keys.SetChanging(of.Kind, of.Owner)
			pipe.SAdd(ctx, changing, w.token)
			pipe.PExpire(ctx, changing, s.ttl)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("keep marks of cached sets: %w", err)
		}
	}
	if w.bulk {
		return s.clearStripes(ctx, w.token, sets)
	}
	return nil
}

// clear follows the commit. It removes the sets, or their gone member, once more, in case
// a restart of Redis has lost the marks, and then the writer's marks. If it fails the marks
// expire. One round trip for each thousand sets, two in a cluster.
func (s *Store) clear(ctx context.Context, w writer, sets []Set) error {
	defer s.forget(sets)
	if w.bulk {
		return s.clearStripes(ctx, w.token, sets)
	}
	return s.change(ctx, sets, func(pipe redis.Pipeliner, of Set) {
		s.remove(ctx, pipe, of, w.gone)
		pipe.SRem(ctx, s.keys.SetChanging(of.Kind, of.Owner), w.token)
	})
}

// remove queues the removal of a set, or of its gone member if that is not 0, and of its
// reader's claim. Each key has a command of its own, which needs no second one while their
// slot moves to another server.
func (s *Store) remove(ctx context.Context, pipe redis.Pipeliner, of Set, gone models.RowID) {
	if gone == 0 {
		pipe.Del(ctx, s.keys.Set(of.Kind, of.Owner))
	} else {
		pipe.SRem(ctx, s.keys.Set(of.Kind, of.Owner), int64(gone))
	}
	pipe.Del(ctx, s.keys.SetLoading(of.Kind, of.Owner))
}

// setsPerTrip is how many sets one round trip changes.
const setsPerTrip = 1000

// change runs the commands that queue adds for each set, and then names the sets in
// their streams of changes, setsPerTrip sets at a time.
func (s *Store) change(ctx context.Context, sets []Set, queue func(redis.Pipeliner, Set)) error {
	for chunk := range slices.Chunk(sets, setsPerTrip) {
		pipe := s.rdb.Pipeline()
		for _, of := range chunk {
			queue(pipe, of)
		}
		if s.streams > 1 {
			// While a slot moves, a pipeline is executed in another order: the commands
			// that are redirected come last.
			if _, err := pipe.Exec(ctx); err != nil {
				return fmt.Errorf("announce change of cached sets: %w", err)
			}
			pipe = s.rdb.Pipeline()
		}
		s.queueChanged(ctx, pipe, chunk)
		if err := execAppends(ctx, pipe); err != nil {
			return fmt.Errorf("announce change of cached sets: %w", err)
		}
	}
	return nil
}

// markStripes is mark for very many sets. It marks their stripes, and so announces a
// change of all sets of these. Two commands for each stripe, and one for each thousand
// sets of a stripe; two round trips for each ten thousand sets.
func (s *Store) markStripes(ctx context.Context, token string, sets []Set) error {
	return s.eachStripe(ctx, sets, func(pipe redis.Pipeliner, stripe int, of []Set) {
		changing := s.keys.SetsChanging(stripe)
		pipe.SAdd(ctx, changing, token)
		pipe.PExpire(ctx, changing, markTTL)
		s.removeAll(ctx, pipe, of)
	})
}

// clearStripes is clear after markStripes. It costs as much.
func (s *Store) clearStripes(ctx context.Context, token string, sets []Set) error {
	return s.eachStripe(ctx, sets, func(pipe redis.Pipeliner, stripe int, of []Set) {
		s.removeAll(ctx, pipe, of)
		pipe.SRem(ctx, s.keys.SetsChanging(stripe), token)
	})
}

// removeAll is remove for many sets of one stripe. A command with keys of a slot that
// moves to another server is sent again until all of them have moved.
func (s *Store) removeAll(ctx context.Context, pipe redis.Pipeliner, sets []Set) {
	for chunk := range slices.Chunk(sets, setsPerTrip) {
		names := make([]string, 0, 2*len(chunk))
		for _, of := range chunk {
			names = append(names, s.keys.Set(of.Kind, of.Owner), s.keys.SetLoading(of.Kind, of.Owner))
		}
		pipe.Del(ctx, names...)
	}
}

// RemoveOf removes the sets that belong to users who were erased and the marks of their
// changes, which may last as long as a set, and returns how many there were. It is no
// change of the sets, so it neither marks nor announces them: their truth is empty. One round
// trip.
func (s *Store) RemoveOf(ctx context.Context, users []models.RowID) (removed int64, err error) {
	pipe := s.rdb.Pipeline()
	for _, user := range users {
		for _, kind := range ofUsers {
			pipe.Unlink(ctx, s.keys.Set(kind, int64(user)))
			pipe.Unlink(ctx, s.keys.SetChanging(kind, int64(user)))
		}
	}
	cmds, err := pipe.Exec(ctx)
	if err != nil {
		return 0, models.Unavailable("remove cached sets of users", err)
	}
	for _, cmd := range cmds {
		removed += cmd.(*redis.IntCmd).Val()
	}
	return removed, nil
}

// setsPerBulkTrip is how many sets one round trip of a bulk change has, or more by those
// of one stripe. It takes Redis a few milliseconds.
const setsPerBulkTrip = 10_000

// eachStripe runs the commands that queue adds for the sets of each stripe, and then
// names the sets in their streams of changes.
func (s *Store) eachStripe(ctx context.Context, sets []Set, queue func(redis.Pipeliner, int, []Set)) error {
	var ofStripe [keys.Stripes][]Set
	for _, of := range sets {
		stripe := keys.StripeOf(of.Owner)
		ofStripe[stripe] = append(ofStripe[stripe], of)
	}
	pipe := s.rdb.Pipeline()
	var queued []Set
	for stripe, of := range ofStripe {
		if len(of) > 0 {
			queue(pipe, stripe, of)
			queued = append(queued, of...)
		}
		if len(queued) == 0 || (len(queued) < setsPerBulkTrip && stripe < keys.Stripes-1) {
			continue
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("announce change of cached sets: %w", err)
		}
		s.queueChanged(ctx, pipe, queued)
		if err := execAppends(ctx, pipe); err != nil {
			return fmt.Errorf("announce change of cached sets: %w", err)
		}
		queued = nil
	}
	return nil
}
