package demo

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

const (
	// likeInterval is how often somebody likes a friend's steps of today.
	likeInterval = 4 * time.Second
	// firstLikes is the share of the friends who like somebody's steps when the demo begins.
	firstLikes = 0.25
	// ownLikes is the share of the later likes that are for the first person.
	ownLikes = 0.4
)

// likes gives likes to the people whom the page offers, from their friends.
type likes struct {
	friends [][]int // positions of the friends of each of these people
}

func newLikes(p *people) *likes {
	l := &likes{friends: make([][]int, min(len(p.ids), offeredPeople))}
	for position := range l.friends {
		l.friends[position] = p.friendsBySteps(position)
	}
	return l
}

// giveFirst gives likes for today, and for yesterday except to the people whom the guide
// shows.
func (l *likes) giveFirst(ctx context.Context, a *app.App, p *people) error {
	rng := rand.New(rand.NewPCG(1, 2))
	for position, friends := range l.friends {
		for ago := range models.Date(2) {
			if ago > 0 && position > 0 && position < firstRole {
				continue
			}
			for _, friend := range friends {
				if rng.Float64() >= firstLikes {
					continue
				}
				if err := p.like(ctx, a, friend, position, p.walkDay.day-ago); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// run gives likes until ctx ends.
func (l *likes) run(ctx context.Context, a *app.App, p *people, clock models.Clock, log *slog.Logger) {
	every(ctx, likeInterval, func() {
		position := 0
		if rand.Float64() >= ownLikes {
			position = rand.IntN(len(l.friends))
		}
		friends := l.friends[position]
		if len(friends) == 0 {
			return
		}
		friend := friends[rand.IntN(len(friends))]
		if err := p.like(ctx, a, friend, position, p.board.Today(clock())); err != nil && ctx.Err() == nil {
			log.Warn("a like was lost", "error", err)
		}
	})
}

// like lets one person like another one's steps of a day, unless there are none that the
// first one is shown.
func (p *people) like(ctx context.Context, a *app.App, from, to int, day models.Date) error {
	err := a.Likes.Give(ctx, ranking.Query{Board: stepsBoard, Viewer: p.ids[from], Date: &day}, p.ids[to])
	if models.CodeOf(err) == models.CodeNotFound {
		return nil
	}
	return err
}
