package competitions

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/failpoint"
	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/holds"
	"stepboard/services/platform/outcomes"
)

// writtenLately is by how much the clocks of two processes may differ: what one has written since is not known to have
// been seen when the other looked.
const writtenLately = time.Minute

// errChanged means that a competition has changed since it was read.
var errChanged = errors.New("the competition has changed meanwhile")

// errUnsettled means that the archived days of a competition are not all that they will be.
var errUnsettled = errors.New("something is left to be archived of the days of the competition")

// Store keeps standings in table standings. Safe for concurrent use.
type Store struct {
	db     *gorm.DB
	outbox *outcomes.Outbox
}

// NewStore returns a store over the database, which writes final standings to the outbox.
func NewStore(db *gorm.DB, outbox *outcomes.Outbox) *Store { return &Store{db: db, outbox: outbox} }

// stored is a row of table standings.
type stored struct {
	Competition models.CompetitionRow `gorm:"column:competition_id;primaryKey"`
	Revision    int                   `gorm:"primaryKey;autoIncrement:false"`
	AsOf        time.Time
	Body        []byte
}

func (stored) TableName() string { return "standings" }

// runs returns the number of the last complete run of each archived day of a board. One query.
func (s *Store) runs(ctx context.Context, board string) (map[string]int, error) {
	runs, err := lists.ByKey[string, int](s.db.WithContext(ctx).Raw(
		`SELECT bucket, max(run) FROM board_archives WHERE board = ? AND state = ? GROUP BY bucket`, board, models.ArchiveComplete))
	return runs, models.Wrap("list archive runs", err)
}

// write replaces the present standing of a competition that is not final.
func (s *Store) write(ctx context.Context, c models.CompetitionRow, asOf time.Time, b *body) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	err = s.db.WithContext(ctx).Exec(`INSERT INTO standings (competition_id, revision, as_of, body)
		SELECT competition_id, 0, ?, ? FROM competitions WHERE competition_id = ? AND revision = 0
		ON CONFLICT (competition_id, revision) DO UPDATE SET as_of = excluded.as_of, body = excluded.body`, asOf, text, c).Error
	return models.Wrap("store a standing", err)
}

// settled, of a store over a transaction, returns errUnsettled if a day of a competition was archived again since it was read, or will be: a
// correction of it is pending, or a total of it that an operator has released waits to be written, or was written
// too lately to have been seen. Three queries.
func (s *Store) settled(ctx context.Context, sh *computation, asOf time.Time) error {
	runs, err := s.runs(ctx, sh.Board)
	if err != nil {
		return err
	}
	for bucket, run := range sh.runs {
		if runs[bucket] != run {
			return errUnsettled
		}
	}
	pending, err := corrections.Pending(s.db, sh.Board, slices.Collect(maps.Keys(sh.runs)))
	if err != nil {
		return err
	}
	released, err := holds.Unsettled(s.db, sh.Board, sh.First, sh.Last, asOf.Add(-writtenLately))
	if err != nil {
		return err
	}
	if pending || released {
		return errUnsettled
	}
	return nil
}

// finish stores the next final standing of a competition, and writes it to the outbox. errChanged if
// the competition or who counts in it is not what it was, errUnsettled as settled.
func (s *Store) finish(ctx context.Context, sh *computation, asOf time.Time) (revision int, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var c models.Competition
		err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Where("competition_id = ?", sh.Row).Take(&c).Error
		if errors.Is(err, gorm.ErrRecordNotFound) || err == nil && (c.Revision != sh.Revision || c.FinalAt != nil && !c.Recompute) {
			return errChanged
		}
		if err != nil {
			return err
		}
		var members []models.TeamMember
		if err := tx.Where("competition_id = ?", c.Row).Order("user_id, first_day").Find(&members).Error; err != nil {
			return err
		}
		if !slices.EqualFunc(members, sh.members, sameMember) {
			return errChanged
		}
		in := Store{db: tx}
		if err := in.settled(ctx, sh, asOf); err != nil {
			return err
		}
		erased, err := in.erased(ctx, c.Row)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(sh.memberships, func(one membership) bool { return erased[one.user] }) { // the scores may be gone that were read
			return errChanged
		}
		hidden, err := in.hidden(ctx, c.Row)
		if err != nil {
			return err
		}
		b := sh.body()
		b.hide(hidden)
		text, err := json.Marshal(b)
		if err != nil {
			return err
		}
		revision = c.Revision + 1
		err = tx.Exec(`UPDATE competitions SET revision = ?, final_at = coalesce(final_at, ?), recompute = false, final_runs = ?, changed_at = NULL
			WHERE competition_id = ?`, revision, asOf, sumOf(sh.runs), c.Row).Error
		if err == nil {
			err = tx.Create(&stored{Competition: c.Row, Revision: revision, AsOf: asOf, Body: text}).Error
		}
		if err == nil {
			err = tx.Exec(`DELETE FROM standings WHERE competition_id = ? AND revision = 0`, c.Row).Error
		}
		if err == nil {
			err = s.outbox.Add(tx, models.OutcomeCompetitionFinal, payloadOf(&c, revision, rank(c.Team, b)))
		}
		failpoint.Hit("competitions.written")
		return err
	})
	if err == nil {
		failpoint.Hit("competitions.final")
	}
	return revision, models.Wrap("store a final standing", err)
}

// sumOf returns the sum of the numbers of runs: they only grow.
func sumOf(runs map[string]int) (sum int64) {
	for _, run := range runs {
		sum += int64(run)
	}
	return sum
}

// unchanged returns the final competitions of which no day was seen to have changed since. One query.
func (s *Store) unchanged(ctx context.Context) (list []models.Competition, err error) {
	err = s.db.WithContext(ctx).Where("revision > 0 AND NOT recompute AND changed_at IS NULL AND final_runs IS NOT NULL").
		Order("board, competition_id").Find(&list).Error
	return list, models.Wrap("list final competitions", err)
}

// changed notes that a day of a final competition has changed since a revision. One statement.
func (s *Store) changed(ctx context.Context, c models.Competition, now time.Time) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE competitions SET changed_at = ? WHERE competition_id = ? AND revision = ? AND changed_at IS NULL`,
		now, c.Row, c.Revision).Error
	return models.Wrap("note that a day of a competition has changed", err)
}

func sameMember(a, b models.TeamMember) bool {
	return a.User == b.User && a.Group == b.Group && a.First == b.First && (a.Last == nil) == (b.Last == nil) && (a.Last == nil || *a.Last == *b.Last)
}

// hidden returns those who count in a competition and hide from everybody. One query.
func (s *Store) hidden(ctx context.Context, c models.CompetitionRow) (map[models.RowID]bool, error) {
	return usersIn(s.db.WithContext(ctx).Raw(`SELECT DISTINCT m.user_id, true FROM competition_members m JOIN users u ON u.user_id = m.user_id
		WHERE m.competition_id = ? AND u.hidden`, c))
}

// erased returns those who count in a competition and are being erased. One query.
func (s *Store) erased(ctx context.Context, c models.CompetitionRow) (map[models.RowID]bool, error) {
	return usersIn(s.db.WithContext(ctx).Raw(`SELECT DISTINCT m.user_id, true FROM competition_members m
		WHERE m.competition_id = ? AND NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = m.user_id)`, c))
}

// usersIn returns the users whom a query selects.
func usersIn(query *gorm.DB) (map[models.RowID]bool, error) {
	found, err := lists.ByKey[models.RowID, bool](query)
	return found, models.Wrap("list people of a competition", err)
}

// latest returns when the latest standing of a competition was made, and its revision; CodeUnavailable for errFirst
// without one. One query.
func (s *Store) latest(ctx context.Context, c models.CompetitionRow) (stored, error) {
	return lists.Take[stored](s.db.WithContext(ctx).Select("competition_id", "revision", "as_of").Where("competition_id = ?", c).
		Order("revision DESC"), models.Unavailable("show a standing", errFirst))
}

// load returns a standing. One query.
func (s *Store) load(ctx context.Context, c models.CompetitionRow, revision int) (row stored, b *body, err error) {
	if err := s.db.WithContext(ctx).Where("competition_id = ? AND revision = ?", c, revision).Take(&row).Error; err != nil {
		return row, nil, err
	}
	b = new(body)
	return row, b, json.Unmarshal(row.Body, b)
}

// again asks for one more revision of a final competition, and reports whether there is one. One statement.
func (s *Store) again(ctx context.Context, id models.CompetitionID) (bool, error) {
	result := s.db.WithContext(ctx).Exec(`UPDATE competitions SET recompute = true WHERE external_id = ? AND revision > 0`, id)
	return result.RowsAffected > 0, models.Wrap("ask for another revision", result.Error)
}

// oldest returns when the oldest present standing was made; the zero time without one. One query.
func (s *Store) oldest(ctx context.Context) (time.Time, error) {
	row, err := lists.Take[stored](s.db.WithContext(ctx).Select("as_of").Where("revision = 0").Order("as_of"), nil)
	return row.AsOf, err
}
