package directory

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/internal/reading"
	"stepboard/models"
	"stepboard/services/platform/batch"
)

const (
	// queryItems is how many users one query looks up, and queryWorkers is how many
	// queries may run at a time. They bound what a process asks of SQL after Redis
	// has lost the records.
	queryItems   = 1000
	queryWorkers = 2
	// readTimeout bounds how long a call waits for records.
	readTimeout = 3 * time.Second
)

// Service maps user ids to row ids and holds profiles. Safe for concurrent use.
type Service struct {
	store  *Store
	redis  *Copies
	memory *memory
	log    *slog.Logger
	// elapsed measures how old something is that the process knows.
	elapsed models.Clock
	stats   Stats
	// resolves looks up and creates users by user id, loads reads records by row id.
	resolves *batch.Batcher[*resolve]
	loads    *batch.Batcher[*load]
	versions *versions
	erased   erasedRows
	renamed  renamedRows
	// handedOut is nil until the row ids were first read.
	handedOut atomic.Pointer[handedOut]
	followed  followed
	noted     Counters // the counters that Redis has; only Follow uses it
	key       []byte   // IDKey of Options
	move      func(ctx context.Context, rows []models.RowID) error
}

// Options holds what New needs.
type Options struct {
	Store *Store
	// Copies is nil without Redis.
	Copies *Copies
	// Memory is the largest size of the copies in the process, in bytes.
	Memory int64
	Log    *slog.Logger
	// Elapsed is the clock that ages are measured by; nil: time.Now, whose differences do not
	// depend on the wall clock.
	Elapsed models.Clock
	// IDKey is the key of IDHash, by which erasures are found.
	IDKey []byte
	// Return moves what was kept of erased users to the rows under which their ids have
	// returned; nil: nothing is kept. It is not called before New has returned.
	Return func(ctx context.Context, rows []models.RowID) error
}

// New returns a service. The caller must call Close.
func New(o Options) *Service {
	if o.Elapsed == nil {
		o.Elapsed = time.Now
	}
	if o.Return == nil {
		o.Return = func(context.Context, []models.RowID) error { return nil }
	}
	s := &Service{
		store: o.Store, redis: o.Copies, memory: newMemory(o.Memory), log: o.Log, elapsed: o.Elapsed, versions: newVersions(o.Elapsed),
		erased: erasedRows{reading: reading.New(erasedTimeout)}, renamed: renamedRows{now: make(map[models.RowID]renamed)},
		key: o.IDKey, move: o.Return,
	}
	s.resolves = batch.New(queryItems, queryWorkers, s.runResolves)
	s.loads = batch.New(queryItems, queryWorkers, s.runLoads)
	return s
}

// Close ends the queries.
func (s *Service) Close() {
	s.resolves.Close()
	s.loads.Close()
}

// Find returns the row id of each user, by position; 0 for users that do not exist.
// No round trip for users that the process has found before, otherwise one to Redis,
// and one query for those that Redis lacks. CodeUnavailable if Redis and SQL are away.
func (s *Service) Find(ctx context.Context, users ...models.UserID) ([]models.RowID, error) {
	return s.resolveAll(ctx, users, false)
}

// FindOne is Find for one user.
func (s *Service) FindOne(ctx context.Context, user models.UserID) (models.RowID, error) {
	rows, err := s.resolveAll(ctx, []models.UserID{user}, false)
	if err != nil {
		return 0, err
	}
	return rows[0], nil
}

// Ensure returns the row id of each user, by position, and creates the users that do
// not exist. It costs what Find costs, and one transaction if users are created. A
// user that was created stays, whatever becomes of the caller's own change. CodeUserNotFound for an id that only
// signing up makes, if there is no such user.
func (s *Service) Ensure(ctx context.Context, users ...models.UserID) ([]models.RowID, error) {
	rows, err := s.resolveAll(ctx, users, true)
	for i, user := range users {
		if err == nil && user.SignsUp() && rows[i] == 0 {
			return nil, errGone(user)
		}
	}
	return rows, err
}

// errGone returns the error about a user who has signed up and was erased since.
func errGone(user models.UserID) error {
	return models.Errorf(models.CodeUserNotFound, "there is no user %s any more", user)
}

// EnsureMany is Ensure for the hundreds of thousands of users of an import, some of whom
// may be named several times. It does not ask Redis, and stores no copies there: a query
// for all of them costs less. No query if the process has found all of them before. The row of an id that only signing up
// makes is 0 if there is no such user.
func (s *Service) EnsureMany(ctx context.Context, users []models.UserID) ([]models.RowID, error) {
	rows, missing := s.idsInMemory(ctx, users)
	if len(missing) == 0 {
		return rows, nil
	}
	asked := make([]string, len(missing))
	for n, i := range missing {
		asked[n] = string(users[i])
	}
	asked = slices.Compact(slices.Sorted(slices.Values(asked)))
	s.stats.Queries.Add(1)
	found, err := s.store.find(ctx, asked)
	if err != nil {
		return nil, models.Unavailable("look up users", err)
	}
	s.stats.IDs.SQL.Add(int64(len(asked)))
	asked = slices.DeleteFunc(asked, func(user string) bool { return found[models.UserID(user)] != 0 || models.UserID(user).SignsUp() })
	if len(asked) > 0 {
		records, returned, err := s.createAll(ctx, asked)
		if err != nil {
			return nil, models.Unavailable("create users", err)
		}
		for user, record := range records {
			found[user] = record.Row
		}
		s.moveKept(ctx, returned)
	}
	for _, i := range missing {
		rows[i] = found[users[i]]
		switch {
		case rows[i] != 0:
			s.memory.ids.put(users[i], rows[i])
		case !users[i].SignsUp():
			return nil, models.Unavailable("create users", errNotStored)
		}
	}
	return rows, nil
}

// resolveAll is Find, or Ensure if users are to be created.
func (s *Service) resolveAll(ctx context.Context, users []models.UserID, create bool) ([]models.RowID, error) {
	rows, missing := s.idsInMemory(ctx, users)
	if len(missing) == 0 {
		return rows, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, of := once(users, missing, func(user models.UserID) *resolve { return &resolve{id: user, create: create && !user.SignsUp()} })
	left, redisErr := s.resolveInRedis(ctx, list)
	if len(left) > 0 {
		if err := s.resolves.Submit(ctx, left); err != nil {
			return nil, models.Unavailable("look up users", errors.Join(err, redisErr))
		}
		s.moveKept(ctx, returnedOf(left))
	}
	for _, i := range missing {
		rows[i] = of[users[i]].row
	}
	return rows, nil
}

// idsInMemory returns the row id of each user that the process holds, and the positions of
// the others.
func (s *Service) idsInMemory(ctx context.Context, users []models.UserID) (rows []models.RowID, missing []int) {
	s.catchUp(ctx)
	rows = make([]models.RowID, len(users))
	s.memory.ids.get(users, rows)
	for i, user := range users {
		if rows[i] == 0 || s.outdated(user, rows[i]) {
			rows[i] = 0
			missing = append(missing, i)
		}
	}
	s.stats.IDs.Process.Add(int64(len(users) - len(missing)))
	return rows, missing
}

// once returns an item for each of the keys at some positions, however often it is there, and
// the item of each key.
func once[Key comparable, Item any](keys []Key, positions []int, item func(Key) *Item) (list []*Item, of map[Key]*Item) {
	of = make(map[Key]*Item, len(positions))
	for _, i := range positions {
		if of[keys[i]] == nil {
			of[keys[i]] = item(keys[i])
			list = append(list, of[keys[i]])
		}
	}
	return list, of
}

// resolve is the lookup of one user.
type resolve struct {
	id     models.UserID
	create bool
	// row is the result; 0 if the user does not exist. Nobody reads it before the
	// lookup is over.
	row models.RowID
	// returned reports whether this lookup has created the user, whose id had been erased.
	returned bool
}

// returnedOf returns the rows of those users whose ids have returned.
func returnedOf(list []*resolve) (rows []models.RowID) {
	for _, r := range list {
		if r.returned {
			rows = append(rows, r.row)
		}
	}
	return rows
}

// idsOf returns the user ids of lookups.
func idsOf(list []*resolve) []string {
	users := make([]string, len(list))
	for i, r := range list {
		users[i] = string(r.id)
	}
	return users
}

// resolveInRedis looks up users in Redis, and returns those that are left.
func (s *Service) resolveInRedis(ctx context.Context, list []*resolve) (left []*resolve, err error) {
	rows, err := s.redis.rows(ctx, idsOf(list))
	if err != nil {
		return list, err
	}
	for i, r := range list {
		if rows[i] == 0 || s.outdated(r.id, rows[i]) {
			left = append(left, r)
			continue
		}
		r.row = rows[i]
		s.memory.ids.put(r.id, r.row)
	}
	s.stats.IDs.Redis.Add(int64(len(list) - len(left)))
	return left, nil
}

// runResolves looks up users in SQL, creates those that are missing and are to be created, and
// stores copies of the records. One query, and one transaction if users are created.
func (s *Service) runResolves(ctx context.Context, list []*resolve) []error {
	s.stats.Queries.Add(1)
	records, err := s.store.byUser(ctx, idsOf(list))
	if err != nil {
		return slices.Repeat([]error{models.Unavailable("look up users", err)}, len(list))
	}
	s.stats.IDs.SQL.Add(int64(len(list)))
	var unknown []string
	for _, r := range list {
		if _, ok := records[r.id]; !ok && r.create {
			unknown = append(unknown, string(r.id))
		}
	}
	var returned []models.RowID
	if len(unknown) > 0 {
		var created map[models.UserID]models.Record
		if created, returned, err = s.createAll(ctx, unknown); err != nil {
			return slices.Repeat([]error{models.Unavailable("create users", err)}, len(list))
		}
		maps.Copy(records, created)
	}
	for _, r := range list {
		if record, ok := records[r.id]; ok {
			r.row, r.returned = record.Row, r.create && slices.Contains(returned, record.Row)
			s.memory.ids.put(r.id, record.Row)
		}
	}
	s.keep(ctx, slices.Collect(maps.Values(records)))
	return nil
}

// createAll creates users and returns their records, and the rows of those who have returned. One query, as of
// Store.create, and one round trip.
func (s *Service) createAll(
	ctx context.Context, users []string,
) (records map[models.UserID]models.Record, returned []models.RowID, err error) {
	s.stats.Queries.Add(1)
	if records, returned, err = s.store.create(ctx, s.key, users); err != nil {
		return nil, nil, err
	}
	failpoint.Hit("caches.users_created")
	highest := models.RowID(0)
	for _, record := range records {
		highest = max(highest, record.Row)
	}
	s.noteCreated(ctx, len(records), highest)
	return records, returned, nil
}

// noteCreated counts users that were created, the last of whom has the given row id. They stay if ctx has ended.
func (s *Service) noteCreated(ctx context.Context, created int, highest models.RowID) {
	s.stats.Created.Add(int64(created))
	if err := s.redis.raiseHighest(context.WithoutCancel(ctx), Counters{Row: highest}); err != nil {
		s.log.WarnContext(ctx, "the highest row id is stored in Redis later", "error", err)
	}
}

// Records returns the record of each user, by position, as Describe.
func (s *Service) Records(ctx context.Context, rows []models.RowID) ([]models.PublicRecord, error) {
	records := make([]models.PublicRecord, len(rows))
	return records, s.Describe(ctx, rows, records)
}

// Describe fills in the record of each user, by position. A record without a user id
// means that no such user exists. No round trip for users whose records the process has,
// otherwise one to Redis, and one query for those that Redis lacks. CodeUnavailable if a
// record can't be read, because Redis and SQL are away.
//
// The texts of records may be parts of slabs (slabBytes), which stay in memory as long as one
// of their texts is in use.
func (s *Service) Describe(ctx context.Context, rows []models.RowID, records []models.PublicRecord) error {
	s.catchUp(ctx)
	s.memory.records.get(rows, records)
	var missing []int // positions
	for i := range records {
		if s.erased.has(rows[i]) {
			records[i] = models.PublicRecord{}
			continue
		}
		if records[i].User == "" {
			missing = append(missing, i)
		}
	}
	s.stats.Records.Process.Add(int64(len(rows) - len(missing)))
	if len(missing) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, of := once(rows, missing, func(row models.RowID) *load { return &load{row: row} })
	left, redisErr := s.loadFromRedis(ctx, list)
	if len(left) > 0 {
		if err := s.loads.Submit(ctx, left); err != nil {
			return models.Unavailable("read profiles", errors.Join(err, redisErr))
		}
	}
	for _, i := range missing {
		records[i] = of[rows[i]].record
	}
	return nil
}

// RecordsMany is Records for the people of a webhook, who may be hundreds. It neither asks
// nor fills the process's memory and Redis, which hold those who call or are shown: a query
// costs rankings less than commands in Redis. One query. CodeUnavailable if SQL is away.
func (s *Service) RecordsMany(ctx context.Context, rows []models.RowID) ([]models.PublicRecord, error) {
	s.stats.Queries.Add(1)
	found, err := s.store.byRow(ctx, rows)
	if err != nil {
		return nil, models.Unavailable("read profiles", err)
	}
	s.stats.Records.SQL.Add(int64(len(rows)))
	records := make([]models.PublicRecord, len(rows))
	for i, row := range rows {
		if record, ok := found[row]; ok && !s.erased.has(row) {
			records[i] = record.Public()
		}
	}
	return records, nil
}

// load is the reading of one record.
type load struct {
	row models.RowID
	// record is the result; nobody reads it before the reading is over.
	record models.PublicRecord
}

// loadFromRedis reads records in Redis, and returns those that are left.
func (s *Service) loadFromRedis(ctx context.Context, list []*load) (left []*load, err error) {
	rows := make([]models.RowID, len(list))
	for i, l := range list {
		rows[i] = l.row
	}
	found, err := s.redis.records(ctx, rows)
	if err != nil {
		return list, err
	}
	for i, l := range list {
		if found[i].User == "" || s.versions.newer(found[i]) {
			left = append(left, l)
			continue
		}
		l.record = s.memory.records.put(found[i])
	}
	s.stats.Records.Redis.Add(int64(len(list) - len(left)))
	return left, nil
}

// runLoads reads records. One query, for those that no other call has read meanwhile.
func (s *Service) runLoads(ctx context.Context, list []*load) []error {
	rows := make([]models.RowID, 0, len(list))
	asked := make(map[models.RowID]bool, len(list))
	for _, l := range list {
		if held, _, ok := s.memory.records.held(l.row); ok {
			l.record = held
		} else if !asked[l.row] {
			asked[l.row] = true
			rows = append(rows, l.row)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	s.stats.Queries.Add(1)
	records, err := s.store.byRow(ctx, rows)
	if err != nil {
		return slices.Repeat([]error{models.Unavailable("read profiles", err)}, len(list))
	}
	s.stats.Records.SQL.Add(int64(len(rows)))
	s.keep(ctx, slices.Collect(maps.Values(records)))
	for _, l := range list {
		if asked[l.row] {
			record := records[l.row]
			l.record = record.Public()
		}
	}
	return nil
}

// keep stores copies of records in the process and in Redis. If Redis is away they
// are missing there, and the next process loads them again.
func (s *Service) keep(ctx context.Context, records []models.Record) {
	records = slices.DeleteFunc(records, func(r models.Record) bool { return s.erased.has(r.Row) })
	for _, record := range records {
		s.memory.records.put(record)
	}
	if err := s.redis.store(ctx, records); err != nil {
		s.log.WarnContext(ctx, "records of users could not be stored in Redis", "users", len(records), "error", err)
	}
}

// Get returns a user's profile as it is stored; that of an unknown user is empty. One
// query, which the copies do not spare: a profile that is edited must be the latest.
func (s *Service) Get(ctx context.Context, user models.UserID) (models.Profile, error) {
	records, err := s.store.byUser(ctx, []string{string(user)})
	return records[user].Profile, models.Public("read profile", err)
}

// Put sets a user's profile, creates the user if necessary, and returns the profile
// as it is stored: its nickname is normalized. This process shows it at once, others
// within 2 seconds. CodeValidationFailed if the profile is invalid.
func (s *Service) Put(ctx context.Context, user models.UserID, p models.Profile) (models.Profile, error) {
	p, err := normalized(p)
	if err != nil {
		return models.Profile{}, err
	}
	rows, err := s.Ensure(ctx, user)
	if err != nil {
		return models.Profile{}, err
	}
	record, err := s.store.put(ctx, rows[0], p)
	if err != nil {
		return models.Profile{}, models.Unavailable("store profile", err)
	}
	failpoint.Hit("caches.profile_committed")
	s.versions.add(record)
	s.keep(context.WithoutCancel(ctx), []models.Record{record})
	return p, nil
}

// Stats counts the work of this process.
type Stats struct {
	// IDs counts the user ids that were looked up, Records the records that were
	// read, each by the level that had them.
	IDs, Records Levels
	// Queries counts the statements by which calls have looked up users, created them
	// or read records; Created counts the users that were created.
	Queries, Created atomic.Int64
}

// Levels counts lookups by the level at which they ended. Lookups of users that do
// not exist end in SQL.
type Levels struct {
	Process, Redis, SQL atomic.Int64
}

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }
