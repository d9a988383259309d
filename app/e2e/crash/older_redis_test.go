package crash_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/recovery"
)

// An older backup of Redis is restored under load. Friendships, choices, corrections, increments
// and archived days are as they were before the restore. Days have what the backup has, until the
// users upload again.
func TestSoakAnOlderRedisUnderANewerPostgres(t *testing.T) {
	t.Parallel()
	newOlderRedis(t, http.StatusOK).run()
}

// With a queue of its own, days have everything that was accepted, too.
func TestSoakAnOlderRedisWithAQueue(t *testing.T) {
	t.Parallel()
	newOlderRedis(t, http.StatusAccepted).run()
}

// olderRedis is two processes under load, whose Redis is replaced by an older one.
type olderRedis struct {
	*lossyRun
	g *givers
	u *harness.Uploads
	h *histories // of what Redis has copies of: they rest while these are old
	c *histories // of increments, which count all the time
	a *coldDays
}

func newOlderRedis(t *testing.T, accepted int) *olderRedis {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	env := harness.Real(t)
	testenv.NumberUsers(t, env, coldUsers) // others are not on the cold days
	server, cfg, stream := harness.SeparateRedis(t, env)
	r := &lossyRun{
		t: t, env: env, cfg: cfg, server: server, rdb: harness.RedisClient(t, server), accepted: accepted,
		date: harness.Today(), points: 50_000, latest: make(map[models.UserID]int), boards: []string{"steps"},
	}
	r.flags = []string{giftBoards(2), "--friends.requests_per_day=10000", "--jobs.archive_cron=0 0 1 1 *"}
	if accepted == http.StatusAccepted {
		r.flags = append(r.flags, harness.RedisQueue(stream)...)
	}
	o := &olderRedis{lossyRun: r, h: newHistories(t), c: newHistories(t)}
	for i := range o.h.urls {
		r.api = testenv.Serve(t, cfg, r.flags...)
		o.h.urls[i].Store(&r.api.URL)
		o.c.urls[i].Store(&r.api.URL)
	}
	onBoards := *env
	onBoards.Stores = &stores.Stores{Redis: r.rdb, Database: env.Database}
	o.a = newColdDays(t, &onBoards)
	o.g = startGivers(t, r.api.URL)
	o.u = harness.StartUploads(t, accepted, r.api.URL, r.date, 8)
	o.h.start(map[string]func(string) object{"friends": friendPair, "block": block})
	o.c.start(map[string]func(string) object{"counter": counter})
	return o
}

// load waits until all kinds of calls have gone on.
func (o *olderRedis) load() {
	o.t.Helper()
	o.g.awaitMore(20)
	o.h.awaitMore(100)
	o.c.awaitMore(100)
	o.u.AwaitMore(o.t, 200)
}

// recovered waits until the processes have found out that this Redis is another one, and have
// written to it what it lacks.
func (o *olderRedis) recovered() {
	o.t.Helper()
	watchers := []string{recovery.Sets, recovery.Ledger}
	if o.accepted == http.StatusAccepted {
		watchers = append(watchers, recovery.Queue)
	}
	info := testenv.Must(o.rdb.InfoMap(o.t.Context(), "replication").Result())
	id := info["Replication"]["master_replid"]
	for _, watcher := range watchers {
		testenv.Eventually(o.t, watcher+": everything is restored", func() bool {
			checkpoint := o.rdb.HGetAll(o.t.Context(), o.env.Keys.LossCheckpoint(watcher, 0)).Val()
			return checkpoint["server"] == id && checkpoint["mark"] == ""
		})
	}
}

// archive runs the command, and expects the days in the archive and nothing of them in Redis.
func (o *olderRedis) archive() {
	o.t.Helper()
	args := slices.Concat([]string{"archive"}, testenv.Flags(o.cfg), o.flags)
	if got := harness.Archive(o.t, args...); got.Status != 0 {
		o.t.Fatalf("archive: %+v", got)
	}
	o.a.check()
	if left := o.coldKeys(); len(left) > 0 {
		o.t.Errorf("Redis has %v of days that are archived", left)
	}
}

// coldKeys returns the keys of the first cold day.
func (o *olderRedis) coldKeys() []string {
	day := strings.ReplaceAll((harness.NoonDay - 100).String(), "-", "")
	return testenv.Must(o.rdb.Keys(o.t.Context(), o.env.Keys.Prefix+"*:"+day+"*").Result())
}

func (o *olderRedis) correct(user models.UserID, kind string) {
	o.t.Helper()
	body := fmt.Sprintf(`{"reason":"shaken","board":"steps","date":%q,"user_id":%q,%s}`, o.date, user, kind)
	o.call("ops", auth.ScopeAdmin, "POST", "/v1/admin/corrections", body, http.StatusCreated)
}

func (o *olderRedis) lift(correction int) {
	o.t.Helper()
	path := fmt.Sprintf("/v1/admin/corrections/%d/lift", correction)
	o.call("ops", auth.ScopeAdmin, "POST", path, `{"reason":"a marathon"}`, http.StatusOK)
}

// hide makes a user hide from everybody, or ends it.
func (o *olderRedis) hide(user models.UserID, hidden bool) {
	o.t.Helper()
	o.call(user, "", "PUT", "/v1/me/privacy", fmt.Sprintf(`{"hidden":%t}`, hidden), http.StatusOK)
}

// befriend makes users friends of ann.
func (o *olderRedis) befriend(users ...models.UserID) {
	o.t.Helper()
	for _, user := range users {
		o.call("ann", "", "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, user), http.StatusCreated)
		o.call(user, "", "POST", "/v1/friends/requests/ann/accept", "", http.StatusOK)
	}
}

// checkTop expects that a global list names nobody who hides, is blocked or is excluded.
func (o *olderRedis) checkTop(when string) {
	o.t.Helper()
	top := o.ranked("steps", "top") + " "
	for _, user := range []string{"hid", "blk", "zed", "out"} {
		if strings.Contains(top, user+":") {
			o.t.Errorf("%s, a global list names %s: %s", when, user, top)
		}
	}
	if !strings.Contains(top, "low:1000 ") {
		o.t.Errorf("%s, a global list has no corrected score: %s", when, top)
	}
}

func (o *olderRedis) run() {
	t := o.t
	o.upload("gone", "neu", "hid", "shown", "blk", "zed", "out", "low", "back", "late", "still", "ann")
	o.befriend("gone", "hid", "shown", "blk", "zed", "out", "low", "back", "late", "still")
	o.correct("back", `"kind":"exclude"`)
	o.hide("shown", true)
	o.load()
	for range o.h.urls { // the sets are in Redis
		o.shows("before the backup", o.lines("ann", "still", "late", "low", "out", "zed", "blk", "hid", "gone"))
	}
	backup := maps.Clone(o.latest)
	zed := harness.Rows(t, o.env.Gorm, []models.UserID{"zed"})[0]
	o.a.write()
	if len(o.entries(zed)) == 0 || len(o.coldKeys()) == 0 {
		t.Fatalf("before the backup, Redis has %v of who is erased later, and %v of the day that is archived later", o.entries(zed), o.coldKeys())
	}
	o.rdb.Set(t.Context(), "which", "older", redis.KeepTTL)
	o.server.Backup()
	o.rdb.Set(t.Context(), "which", "newer", redis.KeepTTL)

	o.load()
	o.a.write()
	o.archive()
	o.call("ann", "", "DELETE", "/v1/friends/gone", "", http.StatusNoContent)
	o.befriend("neu")
	o.hide("hid", true)
	o.hide("shown", false)
	o.call("blk", "", "PUT", "/v1/blocked/ann", "", http.StatusNoContent)
	o.call("zed", "", "DELETE", "/v1/me", `{"confirm":"erase"}`, http.StatusAccepted)
	o.correct("low", `"kind":"set","score":1000`)
	o.correct("out", `"kind":"exclude"`)
	o.correct("late", `"kind":"exclude"`)
	o.upload("late", "still", "ann")
	o.lift(1)
	right := func() string { return o.lines("ann", "still", "back", "shown", "neu") + " low:1000" }
	o.shows("before the restore", right())
	o.load()
	o.h.pause()
	o.g.end()
	if o.accepted == http.StatusAccepted { // no upload can hide a loss
		o.u.End()
		harness.AwaitDrained(t, o.api)
	}
	o.server.Kill()
	o.server.Restore()
	if which := o.rdb.Get(t.Context(), "which").Val(); which != "older" {
		t.Fatalf("Redis is %q", which) // the processes may have removed by now what else was older
	}
	o.recovered()
	o.api = testenv.Serve(t, o.cfg, o.flags...) // it knows only what the stores have
	o.g.check(&stores.Stores{Redis: o.rdb, Database: o.env.Database}, o.env.Keys)
	o.c.awaitMore(50)
	if o.accepted == http.StatusOK { // nobody else knows what was uploaded since
		for _, user := range []models.UserID{"ann", "still", "late"} {
			o.latest[user] = backup[user]
		}
	}
	o.shows("after the restore", right())
	for range 20 {
		if got := o.ranked("steps", "friends"); got != right() {
			t.Errorf("later, friends are %s", got)
		}
		o.checkTop("later")
	}
	o.upload("still", "ann")
	o.shows("uploaded again", right())
	o.lift(4)
	o.shows("lifted", o.lines("ann", "still", "late", "back", "shown", "neu")+" low:1000")
	o.archive()
	o.h.prepareAgain()
	o.h.last()
	o.c.end()
	if o.accepted == http.StatusOK {
		for user := range 8 {
			before := o.u.Accepted(testenv.ID(user + 1))
			testenv.Eventually(t, "everybody uploads again", func() bool { return o.u.Accepted(testenv.ID(user+1)) > before })
		}
		o.u.End()
	}
	o.u.Check(t, o.env, o.rdb)
}

// shows waits until ann sees these friends.
func (o *olderRedis) shows(when, lines string) {
	o.t.Helper()
	last := ""
	o.t.Cleanup(func() {
		if last != lines {
			o.t.Logf("%s, friends are %q, want %q", when, last, lines)
		}
	})
	testenv.Eventually(o.t, when+", friends are "+lines, func() bool {
		last = o.ranked("steps", "friends")
		return last == lines
	})
}
