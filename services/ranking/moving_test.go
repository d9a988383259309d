package ranking_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/board"
	"stepboard/services/lease"
	"stepboard/services/ranking"
	"stepboard/services/score"
)

// walkers is how many have a score on a day that moves. From the real Redis
// the archive reads them in three chunks; the embedded one is slow.
func (w *fixture) walkers() models.UserID {
	if w.env.Pool == nil {
		return 120
	}
	return 1100
}

// The viewers of a day that moves.
const (
	walker   models.UserID = 99
	onlooker models.UserID = 5000 // has friends and no score
)

// filled makes a board on which everybody has a score on the given days, with
// many ties, and the viewers have friends. It answers the days' buckets.
func (w *fixture) filled(days ...models.Date) []*models.Bucket {
	w.t.Helper()
	var friends []models.UserID
	for id := models.UserID(1); id <= w.walkers(); id += 9 {
		friends = append(friends, id)
	}
	w.befriend(walker, friends...)
	w.befriend(onlooker, friends[:10]...)
	buckets := make([]*models.Bucket, len(days))
	for i, day := range days {
		buckets[i] = w.open(day)
		var raises []models.Raise
		for id := models.UserID(1); id <= w.walkers(); id++ {
			raises = append(raises, w.update(buckets[i], id, int64(id)*7919%40, int(id)%3))
		}
		w.apply(raises...)
	}
	return buckets
}

// open moves the clock to a day's noon and answers its bucket.
func (w *fixture) open(day models.Date) *models.Bucket {
	w.t.Helper()
	b := testenv.Must(w.catalog.Definitions.Board("steps"))
	w.env.Clock.Set(day.UTC().Add(4 * time.Hour)) // noon in Shanghai
	bucket, err := w.catalog.Buckets.ForUpload(w.t.Context(), b, day, w.env.Clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return bucket
}

// update is a total that was reached so many seconds after the day's noon.
func (w *fixture) update(b *models.Bucket, user models.UserID, points int64, second int) models.Raise {
	w.t.Helper()
	at := b.StartsAt.Add(12*time.Hour + time.Duration(second)*time.Second)
	composite, err := score.Of(b).Encode(points, models.TimestampOf(at))
	if err != nil {
		w.t.Fatal(err)
	}
	return models.Raise{Bucket: b, Entry: models.Entry{User: user, Composite: composite}}
}

func (w *fixture) apply(raises ...models.Raise) {
	w.t.Helper()
	if errs := w.boards.Raise(w.t.Context(), raises); errs != nil {
		w.t.Fatal(errs)
	}
}

// due moves the clock to when the bucket may be archived.
func (w *fixture) due(b *models.Bucket) { w.env.Clock.Set(b.ColdAt.Add(time.Hour)) }

// mover is the archive of another process, which reads Redis in its own way.
func (w *fixture) mover(hot archive.HotStore) *archive.Service {
	s := archive.New(archive.NewStore(w.env.Gorm, w.env.Pool), hot, lease.NewLocal(), w.env.Clock.Now, w.env.Log)
	w.t.Cleanup(s.Close)
	return s
}

// moves archives a bucket. Any goroutine may call it.
func (w *fixture) moves(a *archive.Service, b *models.Bucket) {
	w.t.Helper()
	run, err := a.Archive(w.t.Context(), b, func(int64) {})
	if err != nil || run.State != models.ArchiveComplete {
		w.t.Errorf("move %s: %+v, %v", b.Name, run, err)
	}
}

// answered is what one call said.
type answered struct {
	call   string
	source models.Source // empty where the call does not tell
	// text is all of it but the source.
	text string
	next *string
}

// asker asks what can be asked of a day.
type asker struct {
	ranking *ranking.Service
	day     models.Date
	// last is the last of those who have a score.
	last models.UserID
	// after is called after each call.
	after func()
}

func (w *fixture) asker(day models.Date) asker {
	return asker{ranking: w.ranking, day: day, last: w.walkers(), after: func() {}}
}

func (a asker) query(viewer models.UserID, limit int, cursor string) ranking.Query {
	return ranking.Query{Board: "steps", Date: &a.day, Viewer: viewer, Limit: limit, Cursor: cursor}
}

func (a asker) ranked(call string, r *models.Ranking, err error) (answered, error) {
	if err != nil {
		return answered{}, fmt.Errorf("%s: %w", call, err)
	}
	whole := *r
	whole.Source = ""
	return answered{call, r.Source, string(whole.AppendJSON(nil)), r.NextCursor}, nil
}

func (a asker) friends(ctx context.Context, viewer models.UserID, cursor string) (answered, error) {
	r, err := a.ranking.Friends(ctx, a.query(viewer, 40, cursor))
	return a.ranked(fmt.Sprintf("friends of %v", viewer), r, err)
}

func (a asker) top(ctx context.Context, viewer models.UserID, cursor string) (answered, error) {
	r, err := a.ranking.Top(ctx, a.query(viewer, int(a.last)/6, cursor))
	return a.ranked(fmt.Sprintf("top for %v", viewer), r, err)
}

func (a asker) around(ctx context.Context, viewer models.UserID) (answered, error) {
	r, err := a.ranking.Around(ctx, a.query(viewer, 0, ""), 5)
	return a.ranked(fmt.Sprintf("around %v", viewer), r, err)
}

func (a asker) me(ctx context.Context, viewer models.UserID) (answered, error) {
	s, err := a.ranking.Me(ctx, a.query(viewer, 0, ""))
	if err != nil {
		return answered{}, fmt.Errorf("me of %v: %w", viewer, err)
	}
	text, err := json.Marshal(s)
	return answered{call: fmt.Sprintf("me of %v", viewer), text: string(text)}, err
}

// history asks for the day and those beside it.
func (a asker) history(ctx context.Context, user models.UserID) (answered, error) {
	from, to := a.day-1, a.day+1
	h, err := a.ranking.History(ctx, ranking.HistoryQuery{Board: "steps", Viewer: walker, Of: user, From: &from, To: &to})
	if err != nil {
		return answered{}, fmt.Errorf("history of %v: %w", user, err)
	}
	answer := answered{call: fmt.Sprintf("history of %v", user)}
	for i, d := range h.Days {
		if d.Date == a.day {
			answer.source, h.Days[i].Source = d.Source, ""
		}
	}
	answer.text = fmt.Sprintf("%+v", *h)
	return answer, nil
}

// everything makes every call, lists page by page.
func (a asker) everything(ctx context.Context) ([]answered, error) {
	var all []answered
	var failed []error
	one := func(answer answered, err error) *string {
		all, failed = append(all, answer), append(failed, err)
		a.after()
		return answer.next
	}
	for _, list := range []func(cursor string) (answered, error){
		func(cursor string) (answered, error) { return a.friends(ctx, walker, cursor) },
		func(cursor string) (answered, error) { return a.friends(ctx, onlooker, cursor) },
		func(cursor string) (answered, error) { return a.top(ctx, walker, cursor) },
		func(cursor string) (answered, error) { return a.top(ctx, 0, cursor) },
	} {
		for next := new(string); next != nil; {
			next = one(list(*next))
		}
	}
	for _, user := range []models.UserID{walker, onlooker, 1, a.last} {
		one(a.around(ctx, user))
		one(a.me(ctx, user))
	}
	for _, user := range []models.UserID{walker, 1, 10} {
		one(a.history(ctx, user))
	}
	return all, errors.Join(failed...)
}

// same compares answers with those before the move, call by call. source is
// who must have answered; empty for either.
func same(t testing.TB, when string, want, got []answered, source models.Source) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d answers, want %d", when, len(got), len(want))
		return
	}
	for i, g := range got {
		if g.text != want[i].text {
			t.Errorf("%s: %s (-before +now)\n%s", when, g.call, cmp.Diff(want[i].text, g.text))
		}
		if (g.source == "") != (want[i].source == "") || (g.source != "" && source != "" && g.source != source) {
			t.Errorf("%s: %s is answered by %q, want %q", when, g.call, g.source, source)
		}
	}
}

// stepper is a Redis that calls at after each step of a move.
type stepper struct {
	*board.Store
	at func(step string)
}

func (s *stepper) Freeze(ctx context.Context, b *models.Bucket, run int) error {
	err := s.Store.Freeze(ctx, b, run)
	s.at("set aside")
	return err
}

func (s *stepper) FrozenParts(ctx context.Context, b *models.Bucket, upto int) ([]models.FrozenPart, error) {
	pieces, err := s.Store.FrozenParts(ctx, b, upto)
	s.at("listed")
	return pieces, err
}

// Chunk is called by a goroutine for each piece.
func (s *stepper) ReadFrozen(ctx context.Context, b *models.Bucket, p models.FrozenPart, from int64, n int) ([]models.Entry, error) {
	s.at("before a chunk")
	entries, err := s.Store.ReadFrozen(ctx, b, p, from, n)
	s.at("after a chunk")
	return entries, err
}

func (s *stepper) DropFrozen(ctx context.Context, b *models.Bucket, pieces []models.FrozenPart) error {
	s.at("stored")
	err := s.Store.DropFrozen(ctx, b, pieces)
	s.at("dropped")
	return err
}

// sourceAt is who answers after a step.
func sourceAt(step string) models.Source {
	if step == "stored" || step == "dropped" {
		return models.SourceArchive
	}
	return models.SourceHot
}

// eachStores runs a test against both kinds of stores with one shard and with
// several.
func eachStores(t *testing.T, test func(*testing.T, *fixture)) {
	t.Helper()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, shards := range []int{1, 4} {
			env.Clock.Set(testenv.Noon.AddDate(0, shards, 0)) // days of their own
			t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) { test(t, newFixture(t, env, shards)) })
		}
	})
}

// noonDate is the day that the clock shows at noon.
func (w *fixture) noonDate() models.Date { return models.DateOf(w.env.Clock.Now()) }

// Between any two steps of a move every answer is the one before it, from one
// side alone; who began to read a list before goes on with the same cursor.
func TestEveryAnswerStaysWhileADayMoves(t *testing.T) {
	t.Parallel()
	eachStores(t, func(t *testing.T, w *fixture) {
		day := w.noonDate()
		buckets := w.filled(day-1, day, day+1)
		w.due(buckets[0])
		w.moves(w.archive, buckets[0])
		w.due(buckets[1])
		a := w.asker(day)
		before, err := a.everything(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "before the move", before, before, models.SourceHot)

		var pages []answered // of the top list, one after each step
		for _, answer := range before {
			if answer.call == "top for 0" {
				pages = append(pages, answer)
			}
		}
		var turning sync.Mutex
		page := 0
		steps := make(map[string]int)
		w.moves(w.mover(&stepper{w.boards, func(step string) {
			got, err := a.everything(t.Context())
			if err != nil {
				t.Errorf("%s: %v", step, err)
				return
			}
			same(t, step, before, got, sourceAt(step))

			turning.Lock()
			defer turning.Unlock()
			steps[step]++
			if page++; page == len(pages) {
				page = 1
			}
			next, err := a.top(t.Context(), 0, *pages[page-1].next)
			if err != nil {
				t.Errorf("%s: %v", step, err)
			}
			same(t, step+", the next page", pages[page:page+1], []answered{next}, sourceAt(step))
		}}), buckets[1])
		chunks := buckets[1].Shards // one of each
		if chunks == 1 && w.walkers() > 1000 {
			chunks = 3
		}
		want := map[string]int{"set aside": 1, "listed": 1, "before a chunk": chunks, "after a chunk": chunks, "stored": 1, "dropped": 1}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("steps -want +got:\n%s", diff)
		}
	})
}

// Readers that never pause see the same, wherever the move has come to.
func TestReadersRaceWithAMove(t *testing.T) {
	t.Parallel()
	eachStores(t, func(t *testing.T, w *fixture) {
		day := w.noonDate()
		buckets := w.filled(day-1, day, day+1)
		w.due(buckets[2])
		var before [3][]answered
		for i := range buckets {
			var err error
			// The history of a day shows the days beside it, which move too.
			if before[i], err = withoutHistory(w.asker(day - 1 + models.Date(i)).everything(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var calls atomic.Int64
		var reading sync.WaitGroup
		for i := range buckets {
			a := w.asker(day - 1 + models.Date(i))
			a.after = func() { calls.Add(1) }
			reading.Go(func() {
				for {
					got, err := withoutHistory(a.everything(t.Context()))
					if err != nil {
						t.Error(err)
						return
					}
					same(t, "while it moves", before[i], got, "")
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		// The move waits a little at each step, so that it meets readers at
		// every place of theirs.
		mover := w.mover(&stepper{w.boards, func(string) {
			upto := calls.Load() + 6
			testenv.Eventually(t, "readers go on", func() bool { return calls.Load() >= upto || t.Failed() })
		}})
		for _, b := range buckets {
			w.moves(mover, b)
		}
		close(stop)
		reading.Wait()
		for i := range buckets {
			got, err := withoutHistory(w.asker(day - 1 + models.Date(i)).everything(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			same(t, "after the move", before[i], got, models.SourceArchive)
		}
	})
}

func withoutHistory(all []answered, err error) ([]answered, error) {
	return slices.DeleteFunc(all, func(a answered) bool { return strings.HasPrefix(a.call, "history") }), err
}

// latecomer is a go-redis hook: it does something before the n-th time that
// Redis is asked, counted from 1.
type latecomer struct {
	left   int
	before func()
}

func (l *latecomer) trip(first redis.Cmder) {
	if name := first.Name(); name == "hello" || name == "client" {
		return // of a new connection
	}
	if l.left--; l.left == 0 {
		l.before()
	}
}

func (l *latecomer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (l *latecomer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l.trip(cmd)
		return next(ctx, cmd)
	}
}

func (l *latecomer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		l.trip(cmds[0])
		return next(ctx, cmds)
	}
}

// Who has looked at the state, then slept while the whole day moved, and only
// then reads Redis, finds nothing there, or the half of it. The answer is the
// archive's.
func TestAReaderThatSleptThroughTheMove(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, asker) (answered, error){
		"friends": func(ctx context.Context, a asker) (answered, error) { return a.friends(ctx, walker, "") },
		"top":     func(ctx context.Context, a asker) (answered, error) { return a.top(ctx, walker, "") },
		"around":  func(ctx context.Context, a asker) (answered, error) { return a.around(ctx, walker) },
		"me":      func(ctx context.Context, a asker) (answered, error) { return a.me(ctx, walker) },
		"history": func(ctx context.Context, a asker) (answered, error) { return a.history(ctx, walker) },
	}
	eachStores(t, func(t *testing.T, w *fixture) {
		day := w.noonDate()
		// How often each call asks Redis, with one shard and with several.
		trips := map[string]int{"friends": 1, "top": 3, "around": 2, "me": 3, "history": 1}
		if w.filled(day)[0].Shards > 1 {
			trips["history"] = 2
		}
		for name, call := range calls {
			for trip := 1; trip <= trips[name]+1; trip++ {
				day += 5
				b := w.filled(day)[0]
				w.due(b)
				a := w.asker(day)
				before, err := call(t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				moved := false
				options := *w.env.Redis.(*redis.Client).Options()
				rdb := redis.NewClient(&options)
				rdb.AddHook(&latecomer{left: trip, before: func() {
					moved = true
					w.moves(w.mover(w.boards), b)
				}})
				a.ranking = ranking.New(w.catalog, board.NewStore(rdb, w.env.Keys, w.env.Clock.Now), w.archive, w.friends, w.users, w.env.Clock.Now)
				got, err := call(t.Context(), a)
				if err := errors.Join(err, rdb.Close()); err != nil {
					t.Fatal(err)
				}
				source := models.SourceArchive
				if trip > trips[name] {
					source = models.SourceHot // it never came to the last one
				}
				if moved != (source == models.SourceArchive) {
					t.Errorf("%s, before trip %d: the day has moved: %v", name, trip, moved)
				}
				same(t, fmt.Sprintf("%s, asleep before trip %d", name, trip), []answered{before}, []answered{got}, source)
			}
		}
	})
}

// standing is what a user has reached on a day.
type standing struct {
	points int64
	second int
}

// order is a day's ranking by brute force.
func order(day map[models.UserID]standing) []models.UserID {
	var users []models.UserID
	for user := range day {
		users = append(users, user)
	}
	slices.SortFunc(users, func(a, b models.UserID) int {
		x, y := day[a], day[b]
		switch {
		case x.points != y.points:
			return int(y.points - x.points)
		case x.second != y.second:
			return x.second - y.second
		default:
			return strings.Compare(b.String(), a.String())
		}
	})
	return users
}

// ranks is a list in short, from its first entry on: rank, user, points.
func ranks(day map[models.UserID]standing, users []models.UserID, first int) []string {
	var out []string
	for i, user := range users {
		out = append(out, fmt.Sprintf("%d. %v %d", first+i, user, day[user].points))
	}
	return out
}

// What is merged later moves ranks, as it should, and an old cursor goes on
// where it stood.
func TestRanksAndCursorsAfterALateMerge(t *testing.T) {
	t.Parallel()
	eachStores(t, func(t *testing.T, w *fixture) {
		day := w.noonDate()
		b := w.open(day)
		truth := make(map[models.UserID]standing)
		late := make(map[models.UserID]standing)
		raise := func(into map[models.UserID]standing) {
			var raises []models.Raise
			for user, s := range into {
				raises = append(raises, w.update(b, user, s.points, s.second))
			}
			w.apply(raises...)
		}
		var others []models.UserID
		for id := models.UserID(1); id <= 60; id++ {
			truth[id] = standing{int64(id % 6 * 100), int(id % 4)}
			if id != 7 {
				others = append(others, id)
			}
		}
		w.befriend(7, append(others, 61, 62)...)
		raise(truth)
		w.due(b)

		lists := map[string]func(q ranking.Query) (*models.Ranking, error){
			"friends": func(q ranking.Query) (*models.Ranking, error) { return w.ranking.Friends(t.Context(), q) },
			"top":     func(q ranking.Query) (*models.Ranking, error) { return w.ranking.Top(t.Context(), q) },
		}
		query := ranking.Query{Board: "steps", Date: &day, Viewer: 7, Limit: 20}
		cursors := make(map[string]string)
		for name, list := range lists {
			page, err := list(query)
			if err != nil || page.Source != models.SourceHot || len(page.Entries) != 20 {
				t.Fatalf("%s: %+v, %v", name, page, err)
			}
			cursors[name] = *page.NextCursor
		}
		// whole reads a list from a cursor on and compares it with the users
		// from the given place on.
		whole := func(when, cursor, name string, users []models.UserID, from int) {
			t.Helper()
			q := query
			q.Cursor = cursor
			var got []string
			for {
				page, err := lists[name](q)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, lines(page)...)
				if page.Total != int64(len(users)) || page.Me == nil || page.Me.Rank != int64(slices.Index(users, 7)+1) || page.Source != models.SourceArchive {
					t.Errorf("%s, %s: %+v, me %+v", when, name, page, page.Me)
				}
				if page.NextCursor == nil {
					break
				}
				q.Cursor = *page.NextCursor
			}
			if diff := cmp.Diff(ranks(truth, users[from:], from+1), got); diff != "" {
				t.Errorf("%s, %s -want +got:\n%s", when, name, diff)
			}
		}
		place := order(truth)[19]
		at := truth[place]
		w.moves(w.archive, b)
		for name := range lists {
			whole("moved", "", name, order(truth), 0)
			whole("moved", cursors[name], name, order(truth), 20)
		}

		late[61] = standing{900, 1}               // new, ahead of everybody
		late[62] = standing{50, 2}                // new, behind the cursor
		late[order(truth)[59]] = standing{901, 1} // from the last place to the first
		late[place] = standing{at.points, at.second + 1}
		late[order(truth)[25]] = standing{at.points, at.second} // beside the cursor's place
		late[order(truth)[30]] = standing{at.points, 0}
		late[order(truth)[0]] = standing{1, 1} // less than stands there
		raise(late)
		for name := range lists {
			whole("late, unseen yet", cursors[name], name, order(truth), 20)
		}
		w.moves(w.archive, b)
		for user, s := range late {
			before, ok := truth[user]
			if !ok || s.points > before.points || s.points == before.points && s.second < before.second {
				truth[user] = s
			}
		}
		after := order(truth)
		for name := range lists {
			whole("merged", "", name, after, 0)
			// The place of the cursor is where its entry stood.
			behind := slices.Index(after, place) + 1
			whole("merged", cursors[name], name, after, behind)
		}
		for i, user := range after {
			h, err := w.ranking.History(t.Context(), ranking.HistoryQuery{Board: "steps", Viewer: user, Of: user, From: &day, To: &day})
			if err != nil || len(h.Days) != 1 || h.Days[0].Rank != int64(i+1) || h.Days[0].Total != int64(len(after)) || h.Days[0].Score != truth[user].points {
				t.Errorf("history of %v: %+v, %v, want rank %d of %d", user, h, err, i+1, len(after))
			}
			me, err := w.ranking.Me(t.Context(), ranking.Query{Board: "steps", Date: &day, Viewer: user})
			if err != nil || *me.GlobalRank != int64(i+1) || me.GlobalTotal != int64(len(after)) {
				t.Errorf("me of %v: %+v, %v, want rank %d of %d", user, me, err, i+1, len(after))
			}
		}
	})
}
