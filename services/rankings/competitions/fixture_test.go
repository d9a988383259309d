package competitions

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/score"
	"stepboard/services/people/friends"
	"stepboard/services/people/privacy"
	"stepboard/services/people/teams"
	"stepboard/services/platform/cursor"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/outcomes"
	"stepboard/services/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	people = 12
	groups = 3
	shards = 3
	// today is that of testenv.Noon.
	today = models.Date(20_777)
)

// table is Teams over its tables, without rules of its own.
type table struct{ db *gorm.DB }

func (s table) list(ctx context.Context, condition string, args ...any) (list []models.Competition, err error) {
	err = s.db.WithContext(ctx).Where(condition, args...).Order("first_day DESC, competition_id").Find(&list).Error
	return list, err
}

func (s table) Find(ctx context.Context, id models.CompetitionID) (models.Competition, error) {
	list, err := s.list(ctx, "external_id = ?", id)
	if err == nil && len(list) == 0 {
		err = models.Errorf(models.CodeNotFound, "no competition")
	}
	return append(list, models.Competition{})[0], err
}

func (s table) OfUser(ctx context.Context, _ models.RowID) ([]models.Competition, error) {
	return s.All(ctx)
}

func (s table) All(ctx context.Context) ([]models.Competition, error) { return s.list(ctx, "1 = 1") }

func (s table) Unfinished(ctx context.Context) ([]models.Competition, error) {
	return s.list(ctx, "final_at IS NULL OR recompute")
}

func (s table) Members(ctx context.Context, c models.CompetitionRow) (list []models.TeamMember, err error) {
	err = s.db.WithContext(ctx).Where("competition_id = ?", c).Order("user_id, first_day").Find(&list).Error
	return list, err
}

func (s table) Teams(ctx context.Context, c models.CompetitionRow) (list []teams.Team, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT g.group_id, g.external_id, g.name FROM competition_teams t JOIN groups g ON g.group_id = t.group_id
		WHERE t.competition_id = ? ORDER BY g.external_id`, c).Scan(&list).Error
	return list, err
}

func (s table) TeamsOf(ctx context.Context, c models.CompetitionRow, user models.RowID) (list []models.GroupRow, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT DISTINCT group_id FROM competition_members WHERE competition_id = ? AND user_id = ?`, c, user).Scan(&list).Error
	return list, err
}

// fixture is a service with people, of whom some are in teams, and a board.
type fixture struct {
	*Service
	t           *testing.T
	env         *testenv.Env
	clock       *testenv.Clock
	boards      board.Entries
	corrections *corrections.Service
	erased      *models.RowSet
	privacy     *privacy.Service
	outbox      *outcomes.Outbox
	changed     []models.CompetitionID // what operators were told
}

func newFixture(t *testing.T, env *testenv.Env) *fixture {
	t.Helper()
	testenv.NumberUsers(t, env, people)
	f := &fixture{t: t, env: env, clock: env.Clock, erased: new(models.RowSet)}
	cat := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	defs := env.Config.BoardDefinitions()
	defs[0].OpenDays, defs[0].Shards = 2, shards
	if err := cat.Definitions.Define(t.Context(), defs); err != nil {
		t.Fatal(err)
	}
	rules := corrections.NewRules(f.erased)
	f.boards = servicetest.Entries(env, env.Clock.Now, rules)
	f.outbox = outcomes.NewOutbox([]outcomes.Target{{URL: "https://app.example/hook"}}, env.Clock.Now)
	archived := archive.NewStore(archive.StoreOptions{Runs: env.Gorm, Pool: env.Pool, Reads: env.Gorm, Reports: env.Gorm})
	archives := archive.New(archived, servicetest.Source(f.boards), lease.NewLocal(), env.Clock.Now, env.Log)
	t.Cleanup(archives.Close)
	users := testenv.Numbers{DB: env.Gorm}
	f.corrections = corrections.New(corrections.Options{
		Store: corrections.NewStore(env.Gorm, env.Gorm, nil), Rules: rules, Catalog: cat, Entries: f.boards, Archive: archives,
		Ledger: ledger.NewReconciler(ledger.ReconcilerOptions{}), Directory: users, Clock: env.Clock.Now, Log: env.Log,
	})
	sets := servicetest.Sets(env)
	f.privacy = privacy.New(privacy.NewStore(env.Gorm), sets, friends.New(friends.NewStore(env.Gorm, nil), sets, users, friends.Limits{}, env.Log), users, 0, env.Log)
	sealer := testenv.Must(cursor.New(t.Context(), cursor.NewStore(env.Gorm), env.Clock.Now))
	f.Service = New(Options{
		Calls: Data{NewStore(env.Gorm, nil), table{env.Gorm}}, Jobs: Data{NewStore(env.Gorm, f.outbox), table{env.Gorm}}, Catalog: cat, Entries: f.boards, Archive: archives, Rules: rules,
		Privacy: f.privacy, Directory: users, Cursors: sealer, Clock: env.Clock.Now, Log: env.Log, Memory: 1 << 20,
		Rest: func(context.Context, time.Time, int) error { return nil },
		Tell: func(_ context.Context, c models.Competition) error {
			f.changed = append(f.changed, c.ID)
			return nil
		},
	})
	for g := range groups {
		f.exec("INSERT INTO groups (external_id, name, created_at) VALUES (?, ?, ?)", string(rune('a'+g)), "Team "+string(rune('A'+g)), env.Clock.Now())
	}
	return f
}

func (f *fixture) exec(statement string, args ...any) {
	f.t.Helper()
	if err := f.env.Gorm.WithContext(f.t.Context()).Exec(statement, args...).Error; err != nil {
		f.t.Fatal(statement, err)
	}
}

// define makes a competition of all groups.
func (f *fixture) define(c models.Competition) models.Competition {
	f.t.Helper()
	c.Board, c.CreatedAt = "steps", f.clock.Now()
	if err := f.env.Gorm.WithContext(f.t.Context()).Create(&c).Error; err != nil {
		f.t.Fatal(err)
	}
	f.exec("INSERT INTO competition_teams SELECT ?, group_id, ? FROM groups", c.Row, f.clock.Now())
	return c
}

// join puts a user into a team from a day on, and out of the one before, if any; 0 is no team.
func (f *fixture) join(c models.Competition, user models.RowID, group models.GroupRow, from models.Date) {
	f.t.Helper()
	f.exec("DELETE FROM competition_members WHERE competition_id = ? AND user_id = ? AND last_day IS NULL AND first_day >= ?", c.Row, user, from)
	f.exec("UPDATE competition_members SET last_day = ? WHERE competition_id = ? AND user_id = ? AND last_day IS NULL", from-1, c.Row, user)
	if group != 0 {
		f.exec("INSERT INTO competition_members (competition_id, user_id, group_id, first_day) VALUES (?, ?, ?, ?)", c.Row, user, group, from)
	}
}

// upload raises a score on a day, reached now or, on one that is over, in its last hour.
func (f *fixture) upload(user models.RowID, day models.Date, points int64) {
	f.t.Helper()
	b := testenv.Must(f.o.Catalog.Definitions.Board("steps"))
	bucket := testenv.Must(f.o.Catalog.Buckets.ForImport(f.t.Context(), b, day, f.clock.Now()))
	codec, at := score.Of(bucket), f.clock.Now()
	if at.After(bucket.EndsAt) {
		at = bucket.EndsAt.Add(-time.Hour)
	}
	composite := testenv.Must(codec.Encode(models.Points(points), codec.Cut(models.TimestampOf(at))))
	errs := f.boards.Raise(f.t.Context(), []models.Raise{{Bucket: bucket, Entry: models.Entry{User: user, Composite: composite}}})
	if err := errors.Join(errs...); err != nil {
		f.t.Fatal(err)
	}
}

// run archives what is due and computes.
func (f *fixture) run() {
	f.t.Helper()
	due := testenv.Must(f.o.Archive.Due(f.t.Context()))
	for _, bucket := range due {
		testenv.Must(f.o.Archive.Archive(f.t.Context(), bucket, func(int64) {}))
	}
	testenv.Must(f.Run(f.t.Context()))
}

// of returns the score of a user on a day that is shown, and when it was reached.
func (f *fixture) of(user models.RowID, day models.Date) (points int64, at models.Timestamp, ok bool) {
	f.t.Helper()
	b := testenv.Must(f.o.Catalog.Definitions.Board("steps"))
	bucket, err := f.o.Catalog.Buckets.Find(f.t.Context(), b, day)
	if errors.Is(err, catalog.ErrNoBucket) {
		return 0, 0, false
	}
	if err != nil {
		f.t.Fatal(err)
	}
	users := []models.RowID{user}
	var found []models.Composite
	if testenv.Must(f.o.Archive.Complete(f.t.Context(), bucket)) {
		found = testenv.Must(f.o.Archive.Composites(f.t.Context(), bucket, users))
	} else {
		found = testenv.Must(f.boards.Composites(f.t.Context(), bucket, users))
		f.o.Rules.Show(bucket, users, found)
	}
	if found[0] == 0 {
		return 0, 0, false
	}
	p, at := score.Of(bucket).Decode(found[0])
	return int64(p), at, true
}

func (f *fixture) nextDay() { f.clock.Advance(24 * time.Hour) }
