// Package competitions makes the standings of competitions between groups.
//
// A standing is a view: it is computed from the present scores and from who counted for which team on
// which day (package teams), and replaced as a whole. So corrections, exclusions, late days and erasures
// need nothing of their own. Run computes all competitions that are not final. It reads each day that is
// not archived once for all competitions of a board, and archived days again only if they have changed
// or a person was added. After each read it waits 19 times as long as the read took, but at most a second. So Run
// spends at most a twentieth of its time on reading, or more if reads take longer than a nineteenth of a second.
//
// Table standings has what each person has, in revision 0 of a competition, and for good in each final
// one. Each process ranks that itself, without those who hide. It looks once a second at most whether the stored
// standing or the set of those who hide has changed. Who hides from everybody counts as if they had not walked.
//
// A competition is final when all its days are archived, and nothing is left to be archived of them: late entries,
// totals that an operator has released, corrections. The transaction that stores its standing writes
// the outcome competition.final.
package competitions

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/people/privacy"
	"stepboard/services/people/teams"
	"stepboard/services/platform/cursor"
)

// Definitions are competitions and who counts in them. Implemented by teams.Service.
type Definitions interface {
	// Find returns a competition. CodeNotFound.
	Find(ctx context.Context, id models.CompetitionID) (models.Competition, error)
	// OfUser returns those in which a group of a user is a team, and All returns all, the one that begins
	// last first.
	OfUser(ctx context.Context, user models.RowID) ([]models.Competition, error)
	All(ctx context.Context) ([]models.Competition, error)
	// Unfinished returns those that are not final, or that are to be computed once more.
	Unfinished(ctx context.Context) ([]models.Competition, error)
	// Members returns who counts in a competition and who did, ordered by user and first day.
	Members(ctx context.Context, c models.CompetitionRow) ([]models.TeamMember, error)
	// Teams returns the teams of a competition, and TeamsOf those whose group a user is a member of.
	Teams(ctx context.Context, c models.CompetitionRow) ([]teams.Team, error)
	TeamsOf(ctx context.Context, c models.CompetitionRow, user models.RowID) ([]models.GroupRow, error)
}

// Data is what is stored of competitions.
type Data struct {
	*Store
	Definitions
}

// Options holds what a Service is built on.
type Options struct {
	// Calls and Jobs are the same data, over connections for calls and for jobs.
	Calls, Jobs Data
	Catalog     *catalog.Catalog
	Entries     board.Reader
	Archive     *archive.Service
	Rules       *corrections.Rules
	Privacy     *privacy.Service
	// Tell tells operators of a final competition of which a day has changed since. It may do so twice.
	Tell func(ctx context.Context, c models.Competition) error
	// Directory names people, and Cursors seal pages.
	Directory models.Directory
	Cursors   *cursor.Sealer
	Clock     models.Clock
	Log       *slog.Logger
	// RetainMonths is how many months the archive keeps; 0 for all.
	RetainMonths int
	// Memory is how many bytes of standings the process keeps.
	Memory int64
	// Rest is pause.After, if it is nil. It is for tests.
	Rest func(ctx context.Context, began time.Time, times int) error
}

// Service computes and shows standings. Safe for concurrent use, except Run.
type Service struct {
	o Options
	// archived is what Run has read of archived days.
	archived map[models.CompetitionRow]*archived
	memory   *memory
	oldest   atomic.Value // of time.Time
}

// New returns a service.
func New(o Options) *Service {
	if o.Rest == nil {
		o.Rest = pause.After
	}
	return &Service{o: o, archived: make(map[models.CompetitionRow]*archived), memory: newMemory(o.Memory)}
}

// Oldest returns when the oldest standing that is not final was computed, when Run last looked; the zero
// time without one.
func (s *Service) Oldest() time.Time {
	oldest, _ := s.oldest.Load().(time.Time)
	return oldest
}

// Run computes the standings of all competitions that are not final, and makes those final whose days
// are archived. It returns how many it has written. It may be cut off and repeated. Run must not run
// twice at once.
func (s *Service) Run(ctx context.Context) (written int64, err error) {
	list, err := s.o.Jobs.Unfinished(ctx)
	if err != nil {
		return 0, err
	}
	of := make(map[string][]models.Competition)
	unfinished := make(map[models.CompetitionRow]bool)
	for _, c := range list {
		of[c.Board] = append(of[c.Board], c)
		unfinished[c.Row] = true
	}
	for c := range s.archived {
		if !unfinished[c] {
			delete(s.archived, c)
		}
	}
	var failed []error
	for name, some := range of {
		n, err := s.board(ctx, name, some)
		written += n
		failed = append(failed, models.Wrap("competitions of "+name, err))
	}
	failed = append(failed, s.noteChanges(ctx))
	oldest, err := s.o.Jobs.oldest(ctx)
	s.oldest.Store(oldest)
	return written, errors.Join(append(failed, err)...)
}

// noteChanges notes of which final competitions a day was archived again since, and tells operators in the audit log.
// It changes no standing: an operator decides that. One query, one for each board, and two statements for each such
// competition.
func (s *Service) noteChanges(ctx context.Context) error {
	list, err := s.o.Jobs.unchanged(ctx)
	if err != nil {
		return err
	}
	runs := make(map[string]map[string]int)
	for _, c := range list {
		if runs[c.Board] == nil {
			if runs[c.Board], err = s.o.Jobs.runs(ctx, c.Board); err != nil {
				return err
			}
		}
		sum := int64(0)
		for day := c.First; day <= c.Last; day++ {
			sum += int64(runs[c.Board][catalog.NameOfDay(day)])
		}
		if sum <= *c.FinalRuns {
			continue
		}
		if err := s.o.Tell(ctx, c); err != nil {
			return err
		}
		if err := s.o.Jobs.changed(ctx, c, s.o.Clock().UTC()); err != nil {
			return err
		}
		s.o.Log.WarnContext(ctx, "a day of a final competition has changed", "competition", c.ID)
	}
	return nil
}

// board computes the standings of competitions of one board.
func (s *Service) board(ctx context.Context, name string, list []models.Competition) (written int64, err error) {
	board, err := s.o.Catalog.Definitions.Board(name)
	if err != nil {
		return 0, err
	}
	for range moves {
		asOf := models.TimestampOf(s.o.Clock()).Time()
		var computations []*computation
		for _, c := range list {
			began := time.Now()
			sh, err := s.read(ctx, c, board.Today(asOf))
			if err == nil {
				err = s.o.Rest(ctx, began, pauseTimes)
			}
			if err != nil {
				return 0, err
			}
			if c.Recompute { // what was read may have changed without a run
				delete(s.archived, c.Row)
			}
			computations = append(computations, sh)
		}
		if err = s.compute(ctx, board, computations); errors.Is(err, errMoved) {
			continue
		} else if err != nil {
			return 0, err
		}
		failpoint.Hit("competitions.computed")
		for _, sh := range computations {
			began := time.Now()
			if err := s.write(ctx, sh, asOf); err != nil {
				return written, err
			}
			written++
			if err := s.o.Rest(ctx, began, pauseTimes); err != nil {
				return written, err
			}
		}
		return written, nil
	}
	return 0, err
}

// write stores what was computed.
func (s *Service) write(ctx context.Context, sh *computation, asOf time.Time) error {
	err := errUnsettled
	if sh.closed {
		var revision int
		if revision, err = s.o.Jobs.finish(ctx, sh, asOf); err == nil {
			s.o.Log.InfoContext(ctx, "a competition is final", "competition", sh.ID, "revision", revision)
		}
	}
	switch {
	case errors.Is(err, errUnsettled) && sh.Revision == 0:
		return s.o.Jobs.write(ctx, sh.Row, asOf, sh.body())
	case errors.Is(err, errUnsettled), errors.Is(err, errChanged): // the next run sees how
		return nil
	}
	return err
}

// Recompute asks for the next revision of a final competition, which the job makes within seconds.
// CodeNotFound if there is none that is final, CodeValidationFailed if the archive does not keep its days
// any more. Two statements.
func (s *Service) Recompute(ctx context.Context, id models.CompetitionID) error {
	c, err := s.o.Calls.Find(ctx, id)
	if err != nil {
		return err
	}
	if s.o.RetainMonths > 0 && c.First < archive.FirstKept(s.o.Clock(), s.o.RetainMonths) {
		return models.Errorf(models.CodeValidationFailed, "the archive does not keep the first days of the competition any more")
	}
	ok, err := s.o.Calls.again(ctx, id)
	if err == nil && !ok {
		return models.Errorf(models.CodeNotFound, "there is no competition %s that is final", id)
	}
	return models.Public("recompute a competition", err)
}
