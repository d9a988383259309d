package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
)

const (
	// costShards is how many shards the sharded board has, mostShards the one
	// that is in the cluster alone.
	costShards, mostShards = 16, 128
	// costSmallest is the smallest board; each larger one is ten times the one
	// before.
	costSmallest = 10_000
	// costConnections ask for rankings at the same time. Of users with thousands
	// of friends, more would wait longer than the service lets them.
	costConnections = 8
)

// costFriends are the numbers of friends that a ranking is measured with beside
// the run's own.
var costFriends = []int{50, 1000, 5000}

// site is a Redis or a cluster, and the service on it.
type site struct {
	rdb     redis.UniversalClient
	redises []*process
	service *process
}

// circle is users with so many friends each, who are all among the first users
// of every board.
type circle struct {
	friends, among int
	// The viewers are so many users from this one on.
	first, viewers int
}

// costs are the sites and who looks at boards there.
type costs struct {
	*setup
	nodes   []*process // of the cluster
	single  *site
	cluster *site
	used    int // users who are viewers already
}

// costBench measures what a friend ranking costs, in a cluster beside one
// Redis, by the number of friends and by the size of the board, and what it
// takes to start the service.
func (w *setup) costBench(ctx context.Context) (err error) {
	if w.board <= costSmallest {
		return fmt.Errorf("-board must be more than %d", costSmallest)
	}
	c := &costs{setup: w, used: w.viewers}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	shape, err := c.newShapes(ctx)
	if err != nil {
		return err
	}
	friends, err := c.newFriends(ctx)
	if err != nil {
		return err
	}
	sizes, err := c.newSizes(ctx)
	if err != nil {
		return err
	}
	all := slices.Concat(shape, friends, sizes)
	for range w.rounds {
		for _, r := range all {
			if err := r.round(ctx, w); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	c.printShapes(shape)
	c.printFriends(slices.Insert(friends, 1, shape[0]))
	c.printSizes(append(sizes, shape[0]))
	return w.startBench(ctx)
}

// costBoard is a board of the sites.
type costBoard struct {
	name          string
	shards, users int
}

const shardedBoard, mostShardedBoard = "sharded", "sharded-128"

// boards are the run's own in mostShards, whole and in costShards, and smaller
// ones. The cluster has the first three.
func (c *costs) boards() []costBoard {
	return append([]costBoard{
		{mostShardedBoard, mostShards, c.board}, {"steps", 1, c.board}, {shardedBoard, costShards, c.board},
	}, c.smaller()...)
}

func (c *costs) smaller() (boards []costBoard) {
	for n := costSmallest; n < c.board; n *= 10 {
		boards = append(boards, costBoard{fmt.Sprintf("steps-%d", n), 1, n})
	}
	return boards
}

// start starts the cluster and a service on either site, and fills their
// boards. Both services name users by the same Postgres.
func (c *costs) start(ctx context.Context) (err error) {
	if err := fillUsers(ctx, c.stores, c.board); err != nil {
		return err
	}
	if c.nodes, err = startCluster(ctx, c.folder); err != nil {
		return err
	}
	// One Redis has the run's own already, and needs no board in most shards.
	if c.single, err = c.newSite(ctx, "single", c.config.Redis, []*process{c.redisServer}, c.boards()[2:]); err != nil {
		return err
	}
	cfg := c.config.Redis
	cfg.Mode, cfg.Addrs = "cluster", nil
	for _, node := range c.nodes {
		cfg.Addrs = append(cfg.Addrs, node.addr)
	}
	c.cluster, err = c.newSite(ctx, "cluster", cfg, c.nodes, c.boards()[:3])
	return err
}

// newSite fills boards of a Redis and starts a service there.
func (c *costs) newSite(ctx context.Context, name string, server config.Redis, redises []*process, fill []costBoard) (*site, error) {
	cfg := c.config
	cfg.Redis, cfg.Boards = server, nil
	for _, b := range c.boards() {
		def := c.config.Boards[0]
		def.Name, def.Shards = b.name, b.shards
		cfg.Boards = append(cfg.Boards, def)
	}
	a, err := c.open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for _, b := range fill {
		if err := fillBoard(ctx, a, b.name, b.users); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	if err := a.Close(); err != nil {
		return nil, err
	}
	service, err := c.serve(ctx, name, boardsFlag(cfg.Boards), "--redis.mode="+server.Mode, "--redis.addrs="+strings.Join(server.Addrs, ","))
	if err != nil {
		return nil, err
	}
	return &site{rdb: stores.OpenRedis(server), redises: redises, service: service}, nil
}

func boardsFlag(boards []config.Board) string {
	var items []string
	for _, b := range boards {
		items = append(items, fmt.Sprintf("{name: %s, shards: %d}", b.Name, b.Shards))
	}
	return "--boards=[" + strings.Join(items, ", ") + "]"
}

// fillUsers makes users with names, as many as a board has.
func fillUsers(ctx context.Context, st *stores.Stores, users int) error {
	_, err := st.Pool.Exec(ctx, `
		INSERT INTO users (user_id, nickname, created_at, updated_at)
		SELECT i, 'user ' || i, now(), now() FROM generate_series($1::bigint, $1 + $2 - 1) AS i
		ON CONFLICT DO NOTHING`, firstUser, users)
	if err != nil {
		return err
	}
	// Or it would be done in the middle of a measurement.
	_, err = st.Pool.Exec(ctx, "VACUUM ANALYZE users")
	return err
}

func (c *costs) close() error {
	var errs []error
	for _, s := range []*site{c.single, c.cluster} {
		if s != nil {
			errs = append(errs, s.service.stop(), s.rdb.Close())
		}
	}
	return errors.Join(append(errs, stopAll(c.nodes))...)
}

// draw makes a circle: users who are no viewers yet get friends, in Redis alone,
// which is where a ranking reads them. There are the fewer viewers the more
// friends each has, so that no more of the board is touched and all names are
// in the service's cache before it is measured.
func (c *costs) draw(ctx context.Context, friends, among int, sites ...*site) (*circle, error) {
	f := &circle{friends: friends, among: among, first: c.used, viewers: max(1, min(c.viewers, c.viewers*c.friends/friends))}
	c.used += f.viewers
	if c.used > costSmallest {
		return nil, fmt.Errorf("-viewers is too much for a board of %d", costSmallest)
	}
	keys := keys.Builder{Prefix: c.keys.prefix}
	for _, s := range sites {
		rng := mathrand.New(mathrand.NewPCG(13, uint64(f.first)))
		for v := range f.viewers {
			seen := make(map[int]bool, friends)
			members := make([]any, 0, friends)
			for len(members) < friends {
				if i := rng.IntN(among); !seen[i] && i != f.first+v {
					seen[i] = true
					members = append(members, firstUser+i)
				}
			}
			key := keys.Friends(viewer(f.first + v))
			if err := errors.Join(s.rdb.SAdd(ctx, key, members...).Err(), s.rdb.Expire(ctx, key, time.Hour).Err()); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// costRow is a friend ranking of one circle on one board of one site.
type costRow struct {
	row
	friends, users int
	connections    int
	first          shown
	ask            func(context.Context, time.Duration) (float64, error)
}

func (c *costs) newRow(ctx context.Context, name string, s *site, board string, f *circle, connections int) (*costRow, error) {
	var requests [][]byte
	for v := range f.viewers {
		token, err := c.token(viewer(f.first+v), "")
		if err != nil {
			return nil, err
		}
		requests = append(requests, c.rankingRequest(board, token, ""))
	}
	ranking, err := firstRanking(ctx, s.service.addr, requests[0])
	if err != nil {
		return nil, err
	}
	if ranking.Total != f.friends+1 {
		return nil, fmt.Errorf("%s: ranks %d instead of %d friends and the viewer", name, ranking.Total, f.friends)
	}
	ask := func(ctx context.Context, d time.Duration) (float64, error) {
		return load(ctx, s.service.addr, connections, d, rotate(requests))
	}
	measure := func(ctx context.Context) (float64, error) { return ask(ctx, c.seconds) }
	return &costRow{
		row:     row{name: name, measure: measure, process: s.service, redises: s.redises},
		friends: f.friends, users: f.among, connections: connections, first: ranking, ask: ask,
	}, nil
}

// shown is what is compared of rankings.
type shown struct {
	Total   int
	Entries []struct {
		User  string `json:"user_id"`
		Score int64
	}
}

// firstRanking asks once, so that nothing is measured that does not answer what
// it should.
func firstRanking(ctx context.Context, addr string, request []byte) (s shown, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Write(request); err != nil {
		return s, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return s, err
	}
	err = errors.Join(json.NewDecoder(res.Body).Decode(&s), res.Body.Close())
	return s, err
}

// round measures once, after a while that brings the names into the service's
// cache, which keeps them for a minute.
func (r *costRow) round(ctx context.Context, w *setup) error {
	if _, err := r.ask(ctx, w.seconds/4); err != nil {
		return err
	}
	return r.run(ctx, w)
}

// both is what a ranking costs Redis and the service together, in microseconds.
func (r *costRow) both() float64 { return r.redis.each() + r.server.each() }

// newShapes are the same board whole and in shards, in one Redis and in the
// cluster.
func (c *costs) newShapes(ctx context.Context) ([]*costRow, error) {
	f, err := c.draw(ctx, c.friends, c.board, c.single, c.cluster)
	if err != nil {
		return nil, err
	}
	inCluster := fmt.Sprintf("cluster of %d masters, ", clusterMasters)
	whole, sharded := "one Redis, 1 shard", fmt.Sprintf("%s%d shards", inCluster, costShards)
	var rows []*costRow
	for _, shape := range []struct {
		name        string
		site        *site
		board       string
		connections int
	}{
		{whole, c.single, "steps", costConnections},
		{fmt.Sprintf("one Redis, %d shards", costShards), c.single, shardedBoard, costConnections},
		{inCluster + "1 shard", c.cluster, "steps", costConnections},
		{sharded, c.cluster, shardedBoard, costConnections},
		{fmt.Sprintf("%s%d shards", inCluster, mostShards), c.cluster, mostShardedBoard, costConnections},
		{whole + ", one client", c.single, "steps", 1},
		{sharded + ", one client", c.cluster, shardedBoard, 1},
	} {
		r, err := c.newRow(ctx, shape.name, shape.site, shape.board, f, shape.connections)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
		if !slices.Equal(r.first.Entries, rows[0].first.Entries) {
			return nil, fmt.Errorf("%s: another ranking than: %s", r.name, whole)
		}
	}
	return rows, nil
}

// newFriends are viewers with fewer and with more friends. They ask the world's
// own service: the names of all rows together are more than its cache holds.
func (c *costs) newFriends(ctx context.Context) ([]*costRow, error) {
	own := &site{rdb: c.rdb, redises: c.single.redises, service: c.service}
	var rows []*costRow
	for _, friends := range costFriends {
		f, err := c.draw(ctx, friends, c.board, own)
		if err != nil {
			return nil, err
		}
		r, err := c.newRow(ctx, fmt.Sprintf("%d friends", friends), own, "steps", f, costConnections)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// newSizes are the smaller boards, whose viewers have their friends there.
func (c *costs) newSizes(ctx context.Context) ([]*costRow, error) {
	var rows []*costRow
	for _, b := range c.smaller() {
		f, err := c.draw(ctx, c.friends, b.users, c.single)
		if err != nil {
			return nil, err
		}
		r, err := c.newRow(ctx, fmt.Sprintf("board of %d", b.users), c.single, b.name, f, costConnections)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (c *costs) printShapes(rows []*costRow) {
	fmt.Printf("\n| friend ranking, %d friends, board of %d | a second | Redis, µs of CPU each | server | both | ratio | client |\n", c.friends, c.board)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	base := rows[0]
	for _, r := range rows {
		if r.connections != base.connections {
			base = r // the next ones are asked otherwise
		}
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f | %.2f | %.0f |\n",
			r.name, r.median(), r.redis.each(), r.server.each(), r.both(), r.both()/base.both(), r.client.each())
	}
}

func (c *costs) printFriends(rows []*costRow) {
	slices.SortFunc(rows, func(a, b *costRow) int { return a.friends - b.friends })
	fmt.Printf("\n| friend ranking, board of %d, 1 shard | a second | Redis, µs of CPU each | server | both | both, for each friend |\n", c.board)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: |")
	var friends, redis, server, both []float64
	for _, r := range rows {
		fmt.Printf("| %d friends | %.0f | %.0f | %.0f | %.0f | %.2f |\n",
			r.friends, r.median(), r.redis.each(), r.server.each(), r.both(), r.both()/float64(r.friends))
		friends = append(friends, float64(r.friends))
		redis, server, both = append(redis, r.redis.each()), append(server, r.server.each()), append(both, r.both())
	}
	fmt.Println("\nµs of CPU of a ranking with n friends, the line nearest to the figures above:")
	for _, l := range []struct {
		name  string
		costs []float64
	}{{"Redis", redis}, {"server", server}, {"both", both}} {
		a, b, worst := fitLine(friends, l.costs)
		fmt.Printf("%s %.0f + %.2f·n, off by %.0f%% at most\n", l.name, a, b, 100*worst)
	}
}

func (c *costs) printSizes(rows []*costRow) {
	fmt.Printf("\n| friend ranking, %d friends, 1 shard | a second | Redis, µs of CPU each | server | both | ratio |\n", c.friends)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range rows {
		fmt.Printf("| board of %d | %.0f | %.0f | %.0f | %.0f | %.2f |\n",
			r.users, r.median(), r.redis.each(), r.server.each(), r.both(), r.both()/rows[0].both())
	}
}

// fitLine finds the line y = a + b·x that is nearest to the points, each
// deviation taken as a share of its y (or the dearest ranking would decide
// alone), and tells the largest of these shares.
func fitLine(x, y []float64) (a, b, worst float64) {
	var n, sx, sy, sxx, sxy float64
	for i := range x {
		weight := 1 / (y[i] * y[i])
		n += weight
		sx += weight * x[i]
		sy += weight * y[i]
		sxx += weight * x[i] * x[i]
		sxy += weight * x[i] * y[i]
	}
	b = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	a = (sy - b*sx) / n
	for i := range x {
		worst = max(worst, math.Abs(a+b*x[i]-y[i])/y[i])
	}
	return a, b, worst
}
