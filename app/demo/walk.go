package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/rankings/ranking"
)

const (
	// uploadInterval is how often some people's phones upload, giftInterval how often somebody
	// gives a gift and others are active, and likeInterval how often somebody likes a friend's
	// steps of today.
	uploadInterval = 500 * time.Millisecond
	giftInterval   = 2 * time.Second
	likeInterval   = 4 * time.Second
	// uploadShare is the share of the people whose phones upload each time.
	uploadShare = 1.0 / 20
	// uploadBatch is how many totals are uploaded at once: the service's queue has room
	// for them, and on a busy machine, too, they are stored within the time of a call.
	uploadBatch = 1000
	// ownLikes is the share of the likes that are for the first person.
	ownLikes = 0.4
)

// giftCoins are the prices of the gifts. Small ones are given more often.
var giftCoins = []int64{1, 1, 1, 5, 5, 10, 10, 20, 66, 188}

// run serves requests while people walk, give gifts and like each other, until ctx ends.
func (s *simulation) run(ctx context.Context) error {
	var living sync.WaitGroup
	lives, stop := context.WithCancel(ctx)
	for _, habit := range []struct {
		every time.Duration
		what  string
		do    func(context.Context) error
	}{
		{uploadInterval, "a report of steps", s.uploadSome}, {giftInterval, "a gift", s.giveSome}, {likeInterval, "a like", s.likeSomebody},
	} {
		living.Go(func() {
			for pause.For(lives, habit.every) == nil {
				if err := habit.do(lives); err != nil && lives.Err() == nil {
					s.log.WarnContext(lives, habit.what+" was lost", "error", err)
				}
			}
		})
	}
	err := s.app.Run(ctx, s.listener)
	stop()
	living.Wait()
	return err
}

// uploadSome uploads the steps so far of some people, who walk fast enough to be watched.
func (s *simulation) uploadSome(ctx context.Context) error {
	s.advance(s.clock())
	var some []models.UserID
	for _, id := range s.ids {
		if s.rng.Float64() < uploadShare {
			some = append(some, id)
		}
	}
	some, _, err := s.present(ctx, some)
	if err != nil {
		return err
	}
	var uploads, local []ingest.Upload
	for _, id := range some {
		position := s.positions[id]
		uploads = append(uploads, s.totalOf(position, &s.walkDay))
		local = append(local, s.totalOf(position, s.homeDay(position)))
	}
	return s.uploadBoth(ctx, uploads, local)
}

// present returns those users who exist, with their rows. A visitor may have erased one, who
// would come into being again with the next upload.
func (s *simulation) present(ctx context.Context, ids []models.UserID) (there []models.UserID, rows []models.RowID, err error) {
	found, err := s.app.Directory.Find(ctx, ids...)
	if err != nil {
		return nil, nil, err
	}
	for i, row := range found {
		if row != 0 {
			there, rows = append(there, ids[i]), append(rows, row)
		}
	}
	return there, rows, nil
}

// totalOf returns the upload of a person's steps so far on a day.
func (p *people) totalOf(position int, day *walkDay) ingest.Upload {
	return ingest.Upload{User: p.ids[position], Date: day.day, Score: dailyScore(p.stepsBetween(position, day.began, day.now))}
}

// uploadBoth uploads totals to the two boards of steps.
func (s *simulation) uploadBoth(ctx context.Context, uploads, local []ingest.Upload) error {
	return errors.Join(s.upload(ctx, stepsBoard, uploads), s.upload(ctx, localBoard, local))
}

// upload uploads totals of many people to a board in batches. Totals of a day that
// has just closed, because midnight has passed, are dropped.
func (s *simulation) upload(ctx context.Context, board string, uploads []ingest.Upload) error {
	for batch := range slices.Chunk(uploads, uploadBatch) {
		_, rejected, err := s.app.Ingest.AcceptBatch(ctx, board, batch)
		if err != nil {
			return err
		}
		for _, r := range rejected {
			if models.CodeOf(r.Err) != models.CodeDateClosed {
				return r.Err
			}
		}
	}
	return nil
}

// giveSome lets somebody give a gift and others be active, unless a visitor has erased them. Half of them
// are among the first, whom the page offers, and their friends.
func (s *simulation) giveSome(ctx context.Context) error {
	some := make([]models.UserID, 4)
	for i := range some {
		n := len(s.ids)
		if rand.IntN(2) == 0 {
			n = min(n, 2*offeredPeople)
		}
		some[i] = s.ids[rand.IntN(n)]
	}
	some, _, err := s.present(ctx, some)
	if err != nil || len(some) == 0 {
		return err
	}
	gift := s.increment(some[0], giftCoins[rand.IntN(len(giftCoins))])
	var points []ledger.Increment
	for _, id := range some[1:] {
		points = append(points, s.increment(id, 1+rand.Int64N(9)))
	}
	return errors.Join(s.add(ctx, giftsBoard, []ledger.Increment{gift}), s.add(ctx, activeBoard, points))
}

// increment returns an increment with an event id of its own. Safe for concurrent use.
func (s *simulation) increment(user models.UserID, delta int64) ledger.Increment {
	return ledger.Increment{User: user, Amount: delta, EventID: "demo-" + strconv.FormatInt(s.given.Add(1), 10)}
}

// likeSomebody lets somebody like the steps of today of a friend whom the page offers.
func (s *simulation) likeSomebody(ctx context.Context) error {
	position := 0
	if rand.Float64() >= ownLikes {
		position = rand.IntN(min(len(s.ids), offeredPeople))
	}
	friends := s.friendsBySteps(position)
	if len(friends) == 0 {
		return nil
	}
	return s.like(ctx, friends[rand.IntN(len(friends))], position, s.board.Today(s.clock()))
}

// like lets one person like another one's steps of a day, unless there are none that the
// first one is shown.
func (s *simulation) like(ctx context.Context, from, to int, day models.Date) error {
	err := s.app.Likes.Give(ctx, ranking.Query{Board: stepsBoard, Viewer: s.ids[from], Date: &day}, s.ids[to])
	if models.CodeOf(err) == models.CodeNotFound {
		return nil
	}
	return err
}
