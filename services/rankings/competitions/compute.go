package competitions

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

const (
	// chunk is how many people's scores are read at once.
	chunk = 1000
	// pauseTimes is how many times as long as a read took the work waits after it.
	pauseTimes = 19
	// moves is how often in a row days may be archived while they are read.
	moves = 5
)

// errMoved means that a day was archived while it was read.
var errMoved = errors.New("a day was archived meanwhile")

// membership is the days on which a person counted for a team. Without a last day it goes on.
type membership struct {
	user        models.RowID
	group       models.GroupRow
	first, last models.Date
	present     bool
}

// computation is a competition that is being computed.
type computation struct {
	models.Competition
	teams       []team
	members     []models.TeamMember
	memberships []membership
	sums        []models.Sum // of each membership
	// begun is how many of its days have begun, and closed that all of them are archived, with nothing left to be
	// archived. runs are the numbers of the last runs of its buckets then.
	begun  int64
	closed bool
	runs   map[string]int
}

// day is a day of a board.
type day struct {
	date     models.Date
	bucket   *models.Bucket // nil if nobody has a score
	archived bool
	run      int
}

// archived is what the archived days of a competition's memberships add up to. It holds while runs stay the
// same: the number of the last run of each of these days.
type archived struct {
	runs map[models.Date]int
	sums map[membership]models.Sum
}

// read reads what a competition is made of.
func (s *Service) read(ctx context.Context, c models.Competition, today models.Date) (*computation, error) {
	found, err := s.o.Jobs.Teams(ctx, c.Row)
	if err != nil {
		return nil, err
	}
	sh := &computation{Competition: c, begun: int64(max(0, min(c.Last, today)-c.First+1))}
	for _, t := range found {
		sh.teams = append(sh.teams, team{t.Group, t.ID, t.Name, int64(t.Members)})
	}
	if sh.members, err = s.o.Jobs.Members(ctx, c.Row); err != nil {
		return nil, err
	}
	for _, m := range sh.members {
		one := membership{user: m.User, group: m.Group, first: max(m.First, c.First), last: c.Last, present: m.Last == nil}
		if m.Last != nil {
			one.last = min(*m.Last, c.Last)
		}
		if !s.o.Rules.Erased(m.User) {
			sh.memberships = append(sh.memberships, one)
		}
	}
	sh.sums = make([]models.Sum, len(sh.memberships))
	return sh, nil
}

// compute adds up the scores of competitions of one board. errMoved.
func (s *Service) compute(ctx context.Context, board *catalog.Board, computations []*computation) error {
	days, err := s.days(ctx, board, computations)
	if err != nil {
		return err
	}
	for _, sh := range computations {
		if err := s.addArchived(ctx, sh, days); err != nil {
			return err
		}
	}
	for _, d := range days {
		if d.bucket == nil || d.archived {
			continue
		}
		if err := s.addHot(ctx, d, computations); err != nil {
			return err
		}
		if archived, err := s.o.Archive.Complete(ctx, d.bucket); err != nil || archived {
			return errors.Join(err, errMoved)
		}
	}
	return nil
}

// days returns the days of some competitions of a board that have begun, and says of each competition
// whether all of its days are archived.
func (s *Service) days(ctx context.Context, board *catalog.Board, computations []*computation) ([]day, error) {
	now := s.o.Clock()
	today := board.Today(now)
	begun := make(map[models.Date]struct{})
	for _, sh := range computations {
		for d := sh.First; d <= min(sh.Last, today); d++ {
			begun[d] = struct{}{}
		}
	}
	runs, err := s.o.Jobs.runs(ctx, board.Name)
	if err != nil {
		return nil, err
	}
	var days []day
	open := make(map[models.Date]bool)
	for _, date := range slices.Sorted(maps.Keys(begun)) {
		d := day{date: date}
		bucket, err := s.o.Catalog.Buckets.Resolve(board, &date, now, models.UTCOffset{})
		if models.CodeOf(err) == models.CodeDateInFuture {
			open[date] = true
			continue
		}
		if err != nil {
			return nil, err
		}
		if d.bucket, err = s.o.Catalog.Buckets.Load(ctx, bucket.Board, bucket.Name); errors.Is(err, catalog.ErrNoBucket) {
			open[date] = !bucket.Cold(now)
			continue
		}
		if err != nil {
			return nil, err
		}
		if d.archived, err = s.o.Archive.Complete(ctx, d.bucket); err != nil {
			return nil, err
		}
		d.run = runs[d.bucket.Name]
		open[date] = !d.archived
		days = append(days, d)
	}
	for _, sh := range computations {
		sh.closed = sh.Last <= today
		for d := sh.First; d <= sh.Last && sh.closed; d++ {
			sh.closed = !open[d]
		}
		if err := s.settle(ctx, sh, days); err != nil {
			return nil, err
		}
	}
	return days, nil
}

// settle finds out whether anything is left to be archived of the days of a competition that are all archived: late
// entries, such as totals that an operator has released, or corrections.
func (s *Service) settle(ctx context.Context, sh *computation, days []day) error {
	sh.runs = make(map[string]int)
	for _, d := range days {
		if !sh.closed || d.date < sh.First || d.date > sh.Last {
			continue
		}
		next, err := s.o.Archive.Next(ctx, d.bucket)
		if err != nil {
			return err
		}
		sh.closed = next.State == models.ArchiveComplete && next.Run == d.run
		sh.runs[d.bucket.Name] = d.run
	}
	return nil
}

// addArchived adds the archived days. What was read before is not read again, unless a day was
// archived since.
func (s *Service) addArchived(ctx context.Context, sh *computation, days []day) error {
	had := s.archived[sh.Row]
	now := &archived{runs: make(map[models.Date]int), sums: make(map[membership]models.Sum, len(sh.memberships))}
	var list []day
	for _, d := range days {
		if d.archived && d.date >= sh.First && d.date <= sh.Last {
			now.runs[d.date] = d.run
			list = append(list, d)
		}
	}
	if had == nil || !maps.Equal(had.runs, now.runs) {
		had = &archived{}
	}
	var missing []int
	for i, one := range sh.memberships {
		sum, ok := had.sums[one]
		if sh.sums[i] = sum; !ok {
			missing = append(missing, i)
		}
	}
	for _, d := range list {
		scores, err := s.scores(ctx, d, sh.users(d.date, missing), s.o.Archive.Composites)
		if err != nil {
			return err
		}
		sh.add(d, missing, scores)
	}
	for i, one := range sh.memberships {
		now.sums[one] = sh.sums[i]
	}
	s.archived[sh.Row] = now
	return nil
}

// addHot adds a day that is not archived, which is read once for all competitions.
func (s *Service) addHot(ctx context.Context, d day, computations []*computation) error {
	var all []models.RowID
	for _, sh := range computations {
		all = append(all, sh.users(d.date, sh.all())...)
	}
	slices.Sort(all)
	scores, err := s.scores(ctx, d, slices.Compact(all), s.hot)
	if err != nil {
		return err
	}
	for _, sh := range computations {
		sh.add(d, sh.all(), scores)
	}
	return nil
}

// hot reads the scores of users on a day that is not archived as they are shown.
func (s *Service) hot(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	composites, err := s.o.Entries.Composites(ctx, bucket, users)
	if err == nil {
		s.o.Rules.Show(bucket, users, composites)
	}
	return composites, err
}

// scores reads the scores of users on a day by a function, in chunks with a pause after each.
func (s *Service) scores(
	ctx context.Context, d day, users []models.RowID,
	read func(context.Context, *models.Bucket, []models.RowID) ([]models.Composite, error),
) (map[models.RowID]models.Composite, error) {
	scores := make(map[models.RowID]models.Composite, len(users))
	for some := range slices.Chunk(users, chunk) {
		began := time.Now()
		composites, err := read(ctx, d.bucket, some)
		if err != nil {
			return nil, err
		}
		for i, user := range some {
			scores[user] = composites[i]
		}
		if err := s.o.Rest(ctx, began, pauseTimes); err != nil {
			return nil, err
		}
	}
	return scores, nil
}

// all returns the indexes of all memberships.
func (sh *computation) all() []int {
	all := make([]int, len(sh.memberships))
	for i := range all {
		all[i] = i
	}
	return all
}

// users returns the users of memberships, by index, that a day belongs to, ascending.
func (sh *computation) users(date models.Date, of []int) (users []models.RowID) {
	for _, i := range of {
		if one := sh.memberships[i]; one.first <= date && date <= one.last {
			users = append(users, one.user)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// add adds the scores of a day to the sums of memberships, by index.
func (sh *computation) add(d day, to []int, scores map[models.RowID]models.Composite) {
	codec := score.Of(d.bucket)
	for _, i := range to {
		one := sh.memberships[i]
		composite := scores[one.user]
		if composite == 0 || d.date < one.first || d.date > one.last {
			continue
		}
		points, reachedAt := codec.Decode(composite)
		sh.sums[i] = sh.sums[i].Plus(measured(&sh.Competition, d.bucket.Score(points), reachedAt))
	}
}

// measured returns what the score of a day counts.
func measured(c *models.Competition, score int64, reachedAt models.Timestamp) models.Sum {
	sum := models.Sum{Score: score, Days: 1, ReachedAt: reachedAt}
	switch {
	case c.Measure == models.MeasureGoalDays && score >= c.Goal:
		sum.Score = 1
	case c.Measure == models.MeasureGoalDays:
		sum.Score = 0
	case c.Cap > 0:
		sum.Score = min(score, c.Cap)
	}
	return sum
}

// body returns what everybody has: a line for each person and team.
func (sh *computation) body() *body {
	b := &body{Days: sh.begun, Teams: sh.teams}
	type key struct {
		user  models.RowID
		group models.GroupRow
	}
	at := make(map[key]int)
	through := sh.First + models.Date(sh.begun) - 1
	for i, one := range sh.memberships {
		k := key{one.user, one.group}
		if _, ok := at[k]; !ok {
			at[k] = len(b.Lines)
			b.Lines = append(b.Lines, line{User: one.user, Group: one.group})
		}
		l := &b.Lines[at[k]]
		l.Present = l.Present || one.present
		l.Counted += int64(max(0, min(one.last, through)-one.first+1))
		l.Sum = l.Plus(sh.sums[i])
	}
	return b
}
