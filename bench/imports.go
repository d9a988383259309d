package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

const (
	// friendsOfImported is the number of friends of each imported person.
	friendsOfImported = 20
	// bareBatch is how many members a bare ZADD has.
	bareBatch = 1000
)

// importResults holds the measurements of imports.
type importResults struct {
	bareCopy, friendships []time.Duration
	bareRaise, totals     []time.Duration
	rate                  int // friend rankings a second
	calm                  []time.Duration
	busy                  [4][]time.Duration // p99 of rankings during the kinds of imports
}

// importKinds are the imports beside which rankings are measured.
var importKinds = [4]struct {
	what string
	args []string
}{
	{"friends", nil}, {"friends", []string{"--gently"}}, {"steps", nil}, {"steps", []string{"--gently"}},
}

// importBench measures how fast friendships and totals are imported, compared with the
// bare commands, and the latency of rankings meanwhile. It imports as many of each as the
// board has users: friendships of new people, and totals of the board's users.
func (e *environment) importBench(ctx context.Context) error {
	saturation, err := e.serviceRanking(ctx)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, e.config.Postgres.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	m := importResults{rate: max(1, int(saturation/4))}
	files := 0 // each has people, or totals, of its own
	for range e.rounds {
		files++
		if err := e.importRates(ctx, pool, &m, files); err != nil {
			return err
		}
	}
	for range e.rounds {
		calm, err := e.p99Now(ctx, m.rate)
		if err != nil {
			return err
		}
		m.calm = append(m.calm, calm)
		for i, kind := range importKinds {
			files++
			path, err := e.importFile(kind.what, files)
			if err != nil {
				return err
			}
			busy, err := e.p99(ctx, m.rate, func(stop func()) error {
				defer stop()
				_, err := e.importAll(ctx, kind.what, path, kind.args...)
				return err
			})
			if err != nil {
				return err
			}
			m.busy[i] = append(m.busy[i], busy)
		}
	}
	e.printImports(m)
	return nil
}

// importRates measures both imports and their bare commands once.
func (e *environment) importRates(ctx context.Context, pool *pgxpool.Pool, m *importResults, file int) error {
	bare, err := e.copyFriendships(ctx, pool, file)
	if err != nil {
		return err
	}
	m.bareCopy = append(m.bareCopy, bare)
	if bare, err = e.raiseTotals(ctx, file); err != nil {
		return err
	}
	m.bareRaise = append(m.bareRaise, bare)
	for _, kind := range []struct {
		what string
		took *[]time.Duration
	}{{"friends", &m.friendships}, {"steps", &m.totals}} {
		path, err := e.importFile(kind.what, file)
		if err != nil {
			return err
		}
		took, err := e.importAll(ctx, kind.what, path)
		if err != nil {
			return err
		}
		*kind.took = append(*kind.took, took)
	}
	return nil
}

// importAll runs the command on a file and returns how long it took.
func (e *environment) importAll(ctx context.Context, what, path string, more ...string) (time.Duration, error) {
	args := append([]string{"import", what, path}, more...)
	cmd := exec.CommandContext(ctx, filepath.Join(e.folder, "stepboard"), append(args, e.flags()[1:]...)...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("import %s: %w: %.1000s", what, err, out)
	}
	return time.Since(start), os.Remove(path)
}

// randomEdges returns as many different friendships as the board has users, in random
// order, between people with the numbers from 1, who have friendsOfImported friends each
// on average.
func (e *environment) randomEdges(file int) []models.Edge {
	rng := mathrand.New(mathrand.NewPCG(17, uint64(file)))
	people := max(2*friendsOfImported, 2*e.board/friendsOfImported)
	seen := make(map[models.Edge]bool, e.board)
	edges := make([]models.Edge, 0, e.board)
	for len(edges) < min(e.board, people*(people-1)/4) {
		a, b := models.RowID(1+rng.IntN(people)), models.RowID(1+rng.IntN(people))
		edge := models.Edge{A: min(a, b), B: max(a, b)}
		if a != b && !seen[edge] {
			seen[edge] = true
			edges = append(edges, edge)
		}
	}
	return edges
}

// randomSteps returns a total of each user of the board.
func (e *environment) randomSteps(file int) []int {
	rng := mathrand.New(mathrand.NewPCG(18, uint64(file)))
	steps := make([]int, e.board)
	for i := range steps {
		steps[i] = rng.IntN(30_000)
	}
	return steps
}

// importFile writes a file of friendships or of totals of a hot day, and returns its path.
func (e *environment) importFile(what string, file int) (path string, err error) {
	path = filepath.Join(e.folder, fmt.Sprintf("%s-%d", what, file))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	if what == "friends" {
		for _, edge := range e.randomEdges(file) {
			fmt.Fprintf(out, "imported-%d-%d imported-%d-%d\n", file, edge.A, file, edge.B)
		}
		return path, out.Flush()
	}
	// The day before yesterday has begun and is hot in every time zone.
	day := time.Now().AddDate(0, 0, -2).Format(time.DateOnly)
	fmt.Fprintln(out, "user_id,date,steps")
	for i, steps := range e.randomSteps(file) {
		fmt.Fprintf(out, "%s,%s,%d\n", userID(models.RowID(firstUser+i)), day, steps)
	}
	return path, out.Flush()
}

// copyFriendships stores both sides of the friendships by one COPY of bytes that are
// encoded before the measurement, sorted by key. The people do not exist otherwise.
func (e *environment) copyFriendships(ctx context.Context, pool *pgxpool.Pool, file int) (time.Duration, error) {
	first := models.RowID(1_000_000_000 * file)
	var rows []models.Edge
	for _, edge := range e.randomEdges(file) {
		rows = append(rows, edge, models.Edge{A: edge.B, B: edge.A})
	}
	slices.SortFunc(rows, func(a, b models.Edge) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) })
	buf := []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, r := range rows {
		buf = binary.BigEndian.AppendUint16(buf, 3)
		for _, field := range [...]models.RowID{first + r.A, first + r.B, 0} { // at 2000-01-01
			buf = binary.BigEndian.AppendUint32(buf, 8)
			buf = binary.BigEndian.AppendUint64(buf, uint64(field))
		}
	}
	buf = append(buf, 0xff, 0xff)
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	start := time.Now()
	_, err = conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(buf),
		"COPY friendships (user_id, friend_id, created_at) FROM STDIN (FORMAT binary)")
	return time.Since(start), err
}

// raiseTotals raises the totals on a key of its own by one ZADD after another.
func (e *environment) raiseTotals(ctx context.Context, file int) (time.Duration, error) {
	key := fmt.Sprintf("%sbare-import-%d", e.config.Redis.KeyPrefix, file)
	steps := e.randomSteps(file)
	start := time.Now()
	for from := 0; from < len(steps); from += bareBatch {
		members := make([]redis.Z, 0, bareBatch)
		for i := from; i < min(from+bareBatch, len(steps)); i++ {
			members = append(members, redis.Z{Score: float64(steps[i]), Member: firstUser + i})
		}
		if err := e.rdb.ZAddGT(ctx, key, members...).Err(); err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	return took, e.rdb.Unlink(ctx, key).Err()
}

func (e *environment) printImports(m importResults) {
	fmt.Printf("\n| import | lines | a second | ratio |\n| --- | ---: | ---: | --- |\n")
	for _, part := range []struct {
		bareName, name string
		bare, took     []time.Duration
	}{
		{"bare COPY of both sides, encoded before and sorted by key", "`import friends`, new people", m.bareCopy, m.friendships},
		{"go-redis loop of variadic ZADD GT", "`import steps`, a hot day of users who exist", m.bareRaise, m.totals},
	} {
		bare, took := median(part.bare), median(part.took)
		fmt.Printf("| %s | %d | %.0f | 1 |\n", part.bareName, e.board, float64(e.board)/bare.Seconds())
		fmt.Printf("| %s | %d | %.0f | %.2f |\n", part.name, e.board, float64(e.board)/took.Seconds(), bare.Seconds()/took.Seconds())
	}
	calm := median(m.calm)
	fmt.Printf("\n| friend rankings | time | ratio |\n| --- | ---: | --- |\n")
	fmt.Printf("| p99 at %d a second | %v | 1 |\n", m.rate, calm.Round(10*time.Microsecond))
	for i, kind := range importKinds {
		gently := ""
		if kind.args != nil {
			gently = " --gently"
		}
		busy := median(m.busy[i])
		fmt.Printf("| p99 at %d a second during `import %s%s` | %v | %.2f |\n",
			m.rate, kind.what, gently, busy.Round(10*time.Microsecond), busy.Seconds()/calm.Seconds())
	}
}
