package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"stepboard/models"
	"stepboard/services/people/cache"
)

const (
	// costShards is the number of shards of the sharded board, mostShards that of a
	// board which only the cluster has.
	costShards, mostShards = 16, 128
	// costSmallest is the number of users on the smallest board; each larger board
	// has ten times as many.
	costSmallest = 10_000
	// costConnections is the number of concurrent requests. With more of them,
	// rankings of users with thousands of friends would time out.
	costConnections = 8
)

// costFriends lists numbers of friends that are measured beside the run's own.
var costFriends = []int{50, 1000, 5000}

// site is a Redis or a cluster, and a service that uses it.
type site struct {
	rdb     redis.UniversalClient
	redises []*process
	service *process
}

// viewerGroup is a group of viewers who have the same number of friends, all of
// them among the first users of every board.
type viewerGroup struct {
	friends, among int
	// The viewers are consecutive users. first is the index of the first one,
	// viewers their number.
	first, viewers int
}

// costs holds the sites and the groups of viewers.
type costs struct {
	*environment
	nodes   []*process // of the cluster
	single  *site
	cluster *site
	used    int // users who are viewers already
}

// costBench measures the cost of a friend ranking on one Redis and on a cluster, by
// the number of friends and by the size of the board.
func (e *environment) costBench(ctx context.Context) (err error) {
	if e.board <= costSmallest {
		return fmt.Errorf("-board must be more than %d", costSmallest)
	}
	c := &costs{environment: e, used: e.viewers}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	shape, err := c.shapeRows(ctx)
	if err != nil {
		return err
	}
	friends, err := c.friendRows(ctx)
	if err != nil {
		return err
	}
	sizes, err := c.sizeRows(ctx)
	if err != nil {
		return err
	}
	all := slices.Concat(shape, friends, sizes)
	for range e.rounds {
		for _, r := range all {
			if err := r.warmUpAndRun(ctx, e); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	c.printShapes(shape)
	c.printFriends(slices.Insert(friends, 1, shape[0]))
	c.printSizes(append(sizes, shape[0]))
	return nil
}

// costBoard describes a board of the sites.
type costBoard struct {
	name          string
	shards, users int
}

const shardedBoard, mostShardedBoard = "sharded", "sharded-128"

// boards returns three boards of the run's size, in mostShards, in one and in
// costShards shards, and the smaller boards. The cluster has the first three.
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

// start starts the cluster and a service on each site, and fills their boards. Both
// services use the same Postgres.
func (c *costs) start(ctx context.Context) (err error) {
	if c.nodes, err = startCluster(ctx, c.folder); err != nil {
		return err
	}
	// The single Redis has the run's own board already, and needs none in mostShards.
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

// newSite fills boards of a Redis or a cluster and starts a service on it.
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

func (c *costs) close() error {
	var errs []error
	for _, s := range []*site{c.single, c.cluster} {
		if s != nil {
			errs = append(errs, s.service.stop(), s.rdb.Close())
		}
	}
	return errors.Join(append(errs, stopAll(c.nodes))...)
}

// newViewers returns a group of users who are not viewers yet, and gives them
// friends. It stores these only in Redis, where a ranking reads them. The more
// friends each viewer has, the smaller is the group, so that rankings touch no
// more of the board and all names are cached before the measurement.
func (c *costs) newViewers(ctx context.Context, friends, among int, sites ...*site) (*viewerGroup, error) {
	g := &viewerGroup{friends: friends, among: among, first: c.used, viewers: max(1, min(c.viewers, c.viewers*c.friends/friends))}
	c.used += g.viewers
	if c.used > costSmallest {
		return nil, fmt.Errorf("-viewers is too much for a board of %d", costSmallest)
	}
	for _, s := range sites {
		rng := mathrand.New(mathrand.NewPCG(13, uint64(g.first)))
		for v := range g.viewers {
			seen := make(map[int]bool, friends)
			members := make([]models.RowID, 0, friends)
			for len(members) < friends {
				if i := rng.IntN(among); !seen[i] && i != g.first+v {
					seen[i] = true
					members = append(members, models.RowID(firstUser+i))
				}
			}
			sets := cache.New(cache.NewStore(s.rdb, keys.Builder{Prefix: c.keys.prefix}, 0), keys.Friends,
				func(context.Context, []models.RowID) (map[models.RowID][]models.RowID, error) {
					return map[models.RowID][]models.RowID{viewer(g.first + v): members}, nil
				}, c.log())
			if _, err := sets.Members(ctx, viewer(g.first+v)); err != nil {
				return nil, err
			}
		}
	}
	return g, nil
}

// costRow measures friend rankings of one group on one board of one site.
type costRow struct {
	row
	friends, users int
	connections    int
	first          rankingBody
	ask            func(context.Context, time.Duration) (float64, error)
}

func (c *costs) newRow(ctx context.Context, name string, s *site, board string, g *viewerGroup, connections int) (*costRow, error) {
	var requests [][]byte
	for v := range g.viewers {
		token, err := c.token(userID(viewer(g.first+v)), "")
		if err != nil {
			return nil, err
		}
		requests = append(requests, c.rankingRequest(board, token, ""))
	}
	ranking, err := readRanking(ctx, s.service.addr, requests[0])
	if err != nil {
		return nil, err
	}
	if ranking.Total != g.friends+1 {
		return nil, fmt.Errorf("%s: ranks %d instead of %d friends and the viewer", name, ranking.Total, g.friends)
	}
	ask := func(ctx context.Context, d time.Duration) (float64, error) {
		return load(ctx, s.service.addr, connections, d, rotate(requests))
	}
	measure := func(ctx context.Context) (float64, error) { return ask(ctx, c.seconds) }
	return &costRow{
		row:     row{name: name, measure: measure, process: s.service, redises: s.redises},
		friends: g.friends, users: g.among, connections: connections, first: ranking, ask: ask,
	}, nil
}

// rankingBody is the part of a ranking's response that is compared.
type rankingBody struct {
	Total   int
	Entries []struct {
		User  string `json:"user_id"`
		Score int64
	}
}

// readRanking makes one request, whose response is checked before the measurement.
func readRanking(ctx context.Context, addr string, request []byte) (s rankingBody, err error) {
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

// warmUpAndRun measures once, after requests that load the names into the service's
// memory.
func (r *costRow) warmUpAndRun(ctx context.Context, e *environment) error {
	if _, err := r.ask(ctx, e.seconds/4); err != nil {
		return err
	}
	return r.run(ctx, e)
}

// both returns the CPU time of a ranking in Redis and the service together, in
// microseconds.
func (r *costRow) both() float64 { return r.redis.each() + r.server.each() }

// shapeRows returns rows for the same board with one and with several shards, on
// one Redis and on the cluster.
func (c *costs) shapeRows(ctx context.Context) ([]*costRow, error) {
	g, err := c.newViewers(ctx, c.friends, c.board, c.single, c.cluster)
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
		r, err := c.newRow(ctx, shape.name, shape.site, shape.board, g, shape.connections)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
		if !slices.Equal(r.first.Entries, rows[0].first.Entries) {
			return nil, fmt.Errorf("%s: not the same ranking as: %s", r.name, whole)
		}
	}
	return rows, nil
}

// friendRows returns rows for viewers with fewer and with more friends. They use the
// run's own service, because one cache can't hold the names of all rows.
func (c *costs) friendRows(ctx context.Context) ([]*costRow, error) {
	own := &site{rdb: c.rdb, redises: c.single.redises, service: c.service}
	var rows []*costRow
	for _, friends := range costFriends {
		g, err := c.newViewers(ctx, friends, c.board, own)
		if err != nil {
			return nil, err
		}
		r, err := c.newRow(ctx, fmt.Sprintf("%d friends", friends), own, "steps", g, costConnections)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// sizeRows returns rows for the smaller boards. Their viewers have friends there.
func (c *costs) sizeRows(ctx context.Context) ([]*costRow, error) {
	var rows []*costRow
	for _, b := range c.smaller() {
		g, err := c.newViewers(ctx, c.friends, b.users, c.single)
		if err != nil {
			return nil, err
		}
		r, err := c.newRow(ctx, fmt.Sprintf("board of %d", b.users), c.single, b.name, g, costConnections)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}
