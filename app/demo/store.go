package demo

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"stepboard/app"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/score"
	"stepboard/services/operations/importer"
)

const (
	// pastDays is how many days of steps the people have, today included: as many
	// as a history shows.
	pastDays = 31
	// peopleWithPast is how many people have steps of days that are closed: the
	// first ones, among them those whom the page offers.
	peopleWithPast = 2000
	// archivePause is how soon a day is archived again that a job is archiving.
	archivePause = 20 * time.Millisecond
)

// store stores the people, their friendships, past days, friend requests and groups,
// and what operators and users have decided about some of them.
func (p *people) store(ctx context.Context, a *app.App, clock models.Clock, progress Progress) error {
	rows, err := a.Directory.EnsureMany(ctx, p.ids)
	if err != nil {
		return err
	}
	for _, id := range p.ids {
		if _, err := a.Directory.Put(ctx, id, p.profile(id)); err != nil {
			return err
		}
	}
	if err := p.storeFriends(ctx, a, progress); err != nil {
		return err
	}
	if p.board, err = a.Catalog.Definitions.Board(stepsBoard); err != nil {
		return err
	}
	now := clock()
	p.walkDay = walkDay{start: now, day: p.board.Today(now)}
	for _, zone := range homeZones {
		p.homeDays = append(p.homeDays, walkDay{start: now, day: zone.today(now)})
	}
	if err := p.storeClosedDays(ctx, a, rows, now, progress); err != nil {
		return err
	}
	if err := p.uploadOpenDays(ctx, a); err != nil {
		return err
	}
	if err := p.requestFriends(ctx, a); err != nil {
		return err
	}
	if err := p.makeGroups(ctx, a); err != nil {
		return err
	}
	return p.assignRoles(ctx, a)
}

// storeFriends stores the friendships as an import does, which adapts to the machine.
func (p *people) storeFriends(ctx context.Context, a *app.App, progress Progress) error {
	defer progress.Clear()
	lines, file := io.Pipe()
	var writing sync.WaitGroup
	writing.Go(func() {
		w := csv.NewWriter(file)
		_ = w.Write([]string{"user1_id", "user2_id"}) // Flush reports its error
		for _, e := range p.edges {
			if err := w.Write([]string{string(e.A), string(e.B)}); err != nil {
				break // reading has ended
			}
		}
		w.Flush()
		file.CloseWithError(w.Error())
	})
	defer writing.Wait()
	defer lines.Close()
	_, err := a.Importer.ImportFriends(ctx, lines, importer.FriendsOptions{}, &moving{progress: progress, all: len(p.edges)})
	return err
}

// moving is the importer.Report of the friendships.
type moving struct {
	progress  Progress
	all, done int
}

// Line implements importer.Report.
func (*moving) Line() {}

// Done implements importer.Report.
func (m *moving) Done(lines int) {
	m.done += lines
	m.progress.Show("moving in: %d of %d friendships", m.done, m.all)
}

// BadLine implements importer.Report.
func (*moving) BadLine(number int, reason error) error {
	return fmt.Errorf("friendship %d: %w", number-1, reason) // below a header
}

// Warn implements importer.Report.
func (*moving) Warn(int, string) {}

// Note implements importer.Report.
func (*moving) Note(int, string) {}

// storeClosedDays stores the days that take no more uploads: in the archive, or
// in Redis if they are still hot.
func (p *people) storeClosedDays(ctx context.Context, a *app.App, rows []models.RowID, now time.Time, progress Progress) error {
	defer progress.Clear()
	for ago := p.board.OpenDays + 1; ago < pastDays; ago++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		progress.Show("remembering: day %d of %d", ago, pastDays)
		bucket, err := a.Catalog.Buckets.ForImport(ctx, p.board, p.walkDay.day-models.Date(ago), now)
		if err != nil {
			return err
		}
		raises, err := p.closedDay(bucket, rows)
		if err != nil {
			return err
		}
		// Stored now, a day that has turned cold would wait for the archive, unseen.
		if errs := a.Entries.EntriesAt(bucket.StartsAt).Raise(ctx, raises); errs != nil {
			return errors.Join(errs...)
		}
		if !bucket.Cold(now) {
			continue
		}
		// For an hour after a bucket has turned cold, the archive refuses it.
		if err := archiveDay(ctx, a, bucket); err != nil && models.CodeOf(err) != models.CodeBucketHot {
			return err
		}
	}
	return nil
}

// archiveDay archives a day. If the job of the start has begun with it, perhaps before it had all
// scores, it is archived once more after that.
func archiveDay(ctx context.Context, a *app.App, bucket *models.Bucket) error {
	for {
		_, err := a.Archive.Archive(ctx, bucket, func(int64) {})
		if models.CodeOf(err) != models.CodeArchiveRunning {
			return err
		}
		if err := pause.For(ctx, archivePause); err != nil {
			return err
		}
	}
}

// closedDay returns the totals of a closed day; rows are those of the people, by
// position.
func (p *people) closedDay(bucket *models.Bucket, rows []models.RowID) ([]models.Raise, error) {
	codec := score.Of(bucket)
	n := min(len(p.ids), peopleWithPast)
	raises := make([]models.Raise, 0, n)
	for position, row := range rows[:n] {
		factor := p.randomFactor()
		reachedAt := bucket.EndsAt.Add(-time.Duration(p.rng.Int64N(int64(4 * time.Hour))))
		if p.rng.Float64() < 0.03 {
			continue // the phone stayed at home
		}
		composite, err := codec.Encode(bucket.Points(dailyScore(p.stepsAfter(position, 24)*factor)), codec.Cut(models.TimestampOf(reachedAt)))
		if err != nil {
			return nil, err
		}
		raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: row, Composite: composite}})
	}
	return raises, nil
}

// randomFactor returns how much more or less than usual somebody walks on a day.
func (p *people) randomFactor() float64 { return 0.45 + 1.1*p.rng.Float64() }

// uploadOpenDays uploads the totals of the days that take uploads, today included, to
// both boards of steps.
func (p *people) uploadOpenDays(ctx context.Context, a *app.App) error {
	var uploads, local []ingest.Upload
	shaken := p.shaken()
	for position, id := range p.ids {
		for ago := range models.Date(p.board.OpenDays + 1) {
			steps := p.stepsAfter(position, 24) * p.randomFactor()
			if ago == 0 {
				steps = p.stepsBetween(position, 0, startHour)
			}
			total := dailyScore(steps)
			if ago == 0 && position == shaken {
				total = shakenScore
			}
			uploads = append(uploads, ingest.Upload{User: id, Date: p.walkDay.day - ago, Score: total})
			local = append(local, ingest.Upload{User: id, Date: p.homeDay(position).day - ago, Score: total})
		}
	}
	return errors.Join(uploadAll(ctx, a, stepsBoard, uploads), uploadAll(ctx, a, localBoard, local))
}

// requestFriends gives each person whom the page offers two friend requests to
// decide on and one of their own. Requests among friends change nothing.
func (p *people) requestFriends(ctx context.Context, a *app.App) error {
	n := len(p.ids)
	if n < 4*smallWorldNeighbours {
		return nil // everybody knows everybody
	}
	for position := range min(n, offeredPeople) {
		me := p.ids[position]
		strangers := [3]models.UserID{p.ids[(position+n/2)%n], p.ids[(position+n/3)%n], p.ids[(position+n/4)%n]}
		for i, from := range strangers {
			to := me
			if i == 2 {
				from, to = me, from
			}
			if _, _, err := a.Friends.SendRequest(ctx, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}
