package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/phones"
	"stepboard/services/boards/score"
	"stepboard/services/operations/audit"
)

const (
	// friendsBatch is how many friendships are stored at once, and incrementsBatch how many
	// increments from before the demo.
	friendsBatch    = 500
	incrementsBatch = 100
	// pastDays is how many days of steps the people have, today included: as many
	// as a history shows.
	pastDays = 31
	// peopleWithPast is how many people have steps of days that are closed: the
	// first ones, among them those whom the page offers.
	peopleWithPast = 2000
	// lapsAtMost is how often a person runs at most.
	lapsAtMost = 3
	// firstLikes is the share of the friends who like somebody's steps when the demo begins.
	firstLikes = 0.25
)

// store stores the people, their friendships, past days, friend requests and groups, what
// operators and users have decided about some of them, and what they have given and run
// before the demo.
func (s *simulation) store(ctx context.Context) (err error) {
	defer s.progress.Clear()
	if s.rows, err = s.app.Directory.EnsureMany(ctx, s.ids); err != nil {
		return err
	}
	for i, id := range s.ids {
		if _, err := s.app.Directory.Put(ctx, id, s.profile(i)); err != nil {
			return err
		}
	}
	if s.board, err = s.app.Catalog.Definitions.Board(stepsBoard); err != nil {
		return err
	}
	s.advance(s.clock())
	for _, store := range []func(context.Context) error{
		s.storeFriends, s.storeClosedDays, s.uploadOpenDays, s.requestFriends, s.makeGroups, s.assignRoles, s.giveFirst, s.runLaps, s.likeFirst,
		s.leaveWork,
	} {
		if err := store(ctx); err != nil {
			return err
		}
	}
	return nil
}

// storeFriends stores the friendships.
func (s *simulation) storeFriends(ctx context.Context) error {
	done := 0
	for batch := range slices.Chunk(s.edges, friendsBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		edges, err := s.app.Friends.Resolve(ctx, batch)
		if err != nil {
			return err
		}
		_, rejected, err := s.app.Friends.Import(ctx, edges)
		if err != nil {
			return err
		}
		if len(rejected) > 0 {
			return fmt.Errorf("friendship %d: %w", done+rejected[0].Index+1, rejected[0].Err)
		}
		done += len(batch)
		s.progress.Show("moving in: %d of %d friendships", done, len(s.edges))
	}
	return s.stores.Analyze(ctx, "users", "friendships")
}

// storeClosedDays stores the days that take no more uploads: in the archive, or
// in the hot store if they may not be archived yet.
func (s *simulation) storeClosedDays(ctx context.Context) error {
	now := s.clock()
	for ago := s.board.OpenDays + 1; ago < pastDays; ago++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.progress.Show("remembering: day %d of %d", ago, pastDays)
		bucket, err := s.app.Catalog.Buckets.ForImport(ctx, s.board, s.walkDay.day-models.Date(ago), now)
		if err != nil {
			return err
		}
		raises, err := s.closedDay(bucket)
		if err != nil {
			return err
		}
		// Stored now, a day that has turned cold would wait for the archive, unseen.
		if errs := s.app.Entries.EntriesAt(bucket.StartsAt).Raise(ctx, raises); errs != nil {
			return errors.Join(errs...)
		}
		if !bucket.Cold(now) {
			continue
		}
		_, err = s.app.Archive.Archive(ctx, bucket, func(int64) {})
		switch models.CodeOf(err) {
		case "", models.CodeBucketHot: // it is hot for an hour after it has turned cold
		case models.CodeArchiveRunning: // by the job of the start, which also takes what came meanwhile
		default:
			return err
		}
	}
	return nil
}

// closedDay returns the totals of a closed day.
func (s *simulation) closedDay(bucket *models.Bucket) ([]models.Raise, error) {
	codec := score.Of(bucket)
	n := min(len(s.ids), peopleWithPast)
	raises := make([]models.Raise, 0, n)
	for position, row := range s.rows[:n] {
		steps := s.randomDay(position)
		reachedAt := bucket.EndsAt.Add(-time.Duration(s.rng.Int64N(int64(4 * time.Hour))))
		if s.rng.Float64() < 0.03 {
			continue // the phone stayed at home
		}
		composite, err := codec.Encode(bucket.Points(steps), codec.Cut(models.TimestampOf(reachedAt)))
		if err != nil {
			return nil, err
		}
		raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: row, Composite: composite}})
	}
	return raises, nil
}

// randomDay returns a score of a whole day of a person, who walks more or less than usual.
func (p *people) randomDay(position int) int64 {
	return dailyScore(p.stepsAfter(position, 24) * (0.45 + 1.1*p.rng.Float64()))
}

// uploadOpenDays uploads the totals of the days that take uploads, today included, to
// both boards of steps.
func (s *simulation) uploadOpenDays(ctx context.Context) error {
	var uploads, local []ingest.Upload
	shaken := s.shaken()
	for position := range s.ids {
		for ago := range models.Date(s.board.OpenDays + 1) {
			today, atHome := s.totalOf(position, &s.walkDay), s.totalOf(position, s.homeDay(position))
			if ago > 0 {
				today.Score = s.randomDay(position)
			} else if position == shaken {
				today.Score = shakenScore
			}
			today.Date, atHome.Date, atHome.Score = today.Date-ago, atHome.Date-ago, today.Score
			uploads, local = append(uploads, today), append(local, atHome)
		}
	}
	return s.uploadBoth(ctx, uploads, local)
}

// requestFriends gives each person whom the page offers two friend requests to
// decide on and one of their own. Requests among friends change nothing.
func (s *simulation) requestFriends(ctx context.Context) error {
	if s.few() {
		return nil
	}
	n := len(s.ids)
	for position, me := range s.ids[:min(n, offeredPeople)] {
		stranger := func(part int) models.UserID { return s.ids[(position+n/part)%n] }
		for _, request := range [][2]models.UserID{{stranger(2), me}, {stranger(3), me}, {me, stranger(4)}} {
			if _, _, err := s.app.Friends.SendRequest(ctx, request[0], request[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveFirst stores gifts and points from before the demo began.
func (s *simulation) giveFirst(ctx context.Context) error {
	for _, board := range []string{giftsBoard, activeBoard} {
		var items []ledger.Increment
		for position, id := range s.ids[:min(len(s.ids), peopleWithPast)] {
			// The guide shows the first gift of the first person, and points that they have.
			if gives := s.rng.Float64() < 0.4; position == 0 && board == activeBoard || position > 0 && gives {
				items = append(items, s.increment(id, 1+int64(300*s.rng.ExpFloat64())))
			}
		}
		if err := s.add(ctx, board, items); err != nil {
			return err
		}
	}
	return nil
}

// add makes increments, in batches.
func (s *simulation) add(ctx context.Context, board string, increments []ledger.Increment) error {
	for batch := range slices.Chunk(increments, incrementsBatch) {
		if _, err := s.app.Ledger.Add(ctx, board, batch); err != nil {
			return err
		}
	}
	return nil
}

// runLaps stores the laps.
func (s *simulation) runLaps(ctx context.Context) error {
	return s.add(ctx, lapsBoard, s.laps(s.clock()))
}

// laps returns the laps that people have run before now. They follow from the people's
// positions, so they are the same in each demo.
func (p *people) laps(now time.Time) (laps []ledger.Increment) {
	for position, id := range p.ids[:min(len(p.ids), peopleWithPast)] {
		if position%3 == 1 {
			continue // does not run
		}
		for lap := range 1 + position%lapsAtMost {
			minutes := (position*37 + lap*401) % int((eventBegan-time.Hour)/time.Minute)
			run := models.TimestampOf(now.Add(-time.Duration(minutes) * time.Minute))
			laps = append(laps, ledger.Increment{
				User: id, Result: true, Amount: int64(62 + (430+position*389+lap*211)%120),
				EventID: fmt.Sprintf("lap-%d-%d", position, lap), OccurredAt: &run,
			})
		}
	}
	return laps
}

// likeFirst lets friends of the people whom the page offers like their steps of today, and of
// yesterday except for the people whom the guide shows.
func (s *simulation) likeFirst(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(1, 2))
	for position := range min(len(s.ids), offeredPeople) {
		friends := s.friendsBySteps(position)
		for ago := range models.Date(2) {
			if ago > 0 && position > 0 && position < firstRole {
				continue
			}
			for _, friend := range friends {
				if rng.Float64() >= firstLikes {
					continue
				}
				if err := s.like(ctx, friend, position, s.walkDay.day-ago); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// demoOperator is the actor of the demo's corrections.
const demoOperator = "operator"

// erasedUser is a person who has been erased before the demo begins.
const erasedUser = "gone|0001"

// leaveWork makes what page and console show besides what people do: reviews, a held total, the address
// of a watch, dead letters, an attempt to replay one, and the erasure of a person.
func (s *simulation) leaveWork(ctx context.Context) error {
	if _, err := s.app.Reviews.Find(ctx); err != nil { // the job would find the shaken phone a minute later
		return err
	}
	if at := s.shaken(); at >= 0 {
		upload := ingest.Upload{User: s.ids[at+1], Date: s.board.Today(s.clock()), Score: heldScore}
		if _, _, err := s.app.Ingest.Accept(ctx, stepsBoard, []ingest.Upload{upload}); err != nil {
			return err
		}
	}
	if _, _, err := s.app.Phones.Add(ctx, s.ids[0], stepsBoard, phones.Choice{Name: "Watch"}); err != nil {
		return err
	}
	if err := s.loseUpdates(ctx); err != nil {
		return err
	}
	// Somebody is erased, as by an operator.
	if _, err := s.app.Directory.Put(ctx, erasedUser, models.Profile{Nickname: "Gone"}); err != nil {
		return err
	}
	finish, err := s.app.Audit.Begin(ctx, audit.Entry{
		AuditEntry: models.AuditEntry{Actor: demoOperator, Action: models.EraseAction, Reason: "asked for by letter"}, User: erasedUser,
	})
	if err != nil {
		return err
	}
	_, err = s.app.Erasure.Begin(ctx, erasedUser, false)
	finish(err)
	return err
}

// loseUpdates stores two dead letters, one of which an operator has tried to replay.
func (s *simulation) loseUpdates(ctx context.Context) error {
	now := s.clock()
	lost := ingest.Update{Board: stepsBoard, Bucket: "20200101", User: 1, Score: 4321, ReachedAt: models.TimestampOf(now)}
	failedAt := now.Add(-time.Hour).UTC()
	err := ingest.NewDeadLetterStore(s.stores.Jobs.Gorm).Write(ctx, []models.DeadLetter{
		{
			Position: "demo 1", Reason: "no bucket 20200101 of board steps exists", Board: lost.Board, Bucket: lost.Bucket,
			Payload: lost.AppendTo(nil), QueuedAt: failedAt, FailedAt: failedAt,
		},
		{Position: "demo 2", Reason: "the message is no update", Payload: []byte("?"), QueuedAt: failedAt, FailedAt: failedAt},
	})
	if err != nil {
		return err
	}
	letters, err := s.app.DeadLetters.List(ctx, ingest.DeadLetterQuery{Bucket: lost.Bucket, Limit: 1})
	if err != nil {
		return err
	}
	id := letters[0].ID
	finish, err := s.app.Audit.Begin(ctx, audit.Entry{
		AuditEntry: models.AuditEntry{Actor: demoOperator, Action: "replayDeadLetter", Target: fmt.Sprint(id)},
	})
	if err == nil {
		finish(s.app.DeadLetters.Replay(ctx, id, false)) // it fails: the bucket does not exist
	}
	return err
}
