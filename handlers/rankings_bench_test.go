package handlers_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/config"
	"stepboard/handlers"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/people/directory"
	"stepboard/services/platform/auth"
	sealing "stepboard/services/platform/cursor"
	"stepboard/services/platform/limit"
	"stepboard/services/rankings/ranking"
)

const (
	benchPeople  = 100_000
	benchFriends = 200
)

// The benchmarks of this file measure what a friend ranking costs beside its round
// trips: the boards and the friends are in memory, everything else is the service's
// own. cpu-ns/op is the processor time of the process, which depends less on what
// else the machine does than ns/op.
//
// BenchmarkFriendRanking calls the handler without a network.
func BenchmarkFriendRanking(b *testing.B) {
	f := newRankingBench(b)
	for _, viewers := range []int{300, benchPeople} {
		for _, limit := range []int{50, 200} {
			for _, accept := range []string{"identity", "gzip"} {
				b.Run(fmt.Sprintf("viewers=%d/limit=%d/accept=%s", viewers, limit, accept), func(b *testing.B) {
					request := f.request(b, limit)
					request.Header.Set("Accept-Encoding", accept)
					w := &discardedResponse{header: make(http.Header)}
					viewer := mathrand.New(mathrand.NewPCG(1, 2))
					measure(b, func() {
						request.Header["Authorization"][0] = "Bearer " + f.tokens[viewer.IntN(viewers)]
						w.reset()
						f.handler.ServeHTTP(w, request)
						if w.status != http.StatusOK {
							b.Fatalf("status %d", w.status)
						}
					})
					b.ReportMetric(float64(w.bytes), "bytes/answer")
				})
			}
		}
	}
}

// BenchmarkFriendRankingOverHTTP sends the requests over a connection of the loopback
// network, one after the other. The figures include the client, which costs little.
func BenchmarkFriendRankingOverHTTP(b *testing.B) {
	f := newRankingBench(b)
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: f.handler, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with the benchmark
	b.Cleanup(func() { _ = server.Close() })
	conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	answers := bufio.NewReaderSize(conn, 64<<10)
	for _, viewers := range []int{300, benchPeople} {
		for _, limit := range []int{50, 200} {
			b.Run(fmt.Sprintf("viewers=%d/limit=%d", viewers, limit), func(b *testing.B) {
				viewer := mathrand.New(mathrand.NewPCG(1, 2))
				var request []byte
				measure(b, func() {
					request = fmt.Appendf(request[:0],
						"GET /v1/boards/steps/friends?limit=%d HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
						limit, f.tokens[viewer.IntN(viewers)])
					if _, err := conn.Write(request); err != nil {
						b.Fatal(err)
					}
					if err := skipAnswer(answers); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// skipAnswer reads an answer that has a Content-Length.
func skipAnswer(r *bufio.Reader) error {
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == len("\r\n") {
			break
		}
		if text, ok := cutHeader(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(text); err != nil {
				return err
			}
		}
	}
	if length == 0 {
		return io.ErrUnexpectedEOF
	}
	_, err := r.Discard(length)
	return err
}

func cutHeader(line []byte, name string) (value string, ok bool) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return "", false
	}
	return string(line[len(name) : len(line)-len("\r\n")]), true
}

// measure runs a benchmark and reports the processor time of an operation. The heap
// grows as far between two collections as in the service.
func measure(b *testing.B, operation func()) {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(300))
	operation()
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	for range b.N {
		operation()
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// discardedResponse counts the bytes of an answer and forgets them.
type discardedResponse struct {
	header        http.Header
	status, bytes int
}

func (w *discardedResponse) reset() {
	clear(w.header)
	w.status, w.bytes = http.StatusOK, 0
}

func (w *discardedResponse) Header() http.Header    { return w.header }
func (w *discardedResponse) WriteHeader(status int) { w.status = status }
func (w *discardedResponse) Write(p []byte) (int, error) {
	w.bytes += len(p)
	return len(p), nil
}

// rankingBench is an API that knows benchPeople users, who all have a score, and
// benchFriends friends each.
type rankingBench struct {
	handler http.Handler
	tokens  []string // one of each user
}

func newRankingBench(b *testing.B) *rankingBench {
	b.Helper()
	env := testenv.Local(b)
	clock := env.Clock.Now
	boards := catalog.New(catalog.NewStore(env.Gorm), clock, 3, env.Log)
	if err := boards.Definitions.Define(b.Context(), env.Config.BoardDefinitions()); err != nil {
		b.Fatal(err)
	}
	today := models.DateOf(clock().In(time.FixedZone("Shanghai", 8*3600)))
	steps := testenv.Must(boards.Definitions.Board("steps"))
	bucket := testenv.Must(boards.Buckets.ForUpload(b.Context(), steps, today, clock()))
	people, users := newBenchDirectory(b, env)
	verifier, tokens := newBenchTokens(b, users)
	rankings := ranking.New(ranking.Options{
		Catalog: boards, NearCache: newMemoryCache(b, bucket), Friends: newMemoryFriends(), Directory: people,
		Cursors: testenv.Must(sealing.New(b.Context(), sealing.NewStore(env.Gorm), clock)), Clock: clock,
	})
	const unreached = 1 << 30 // calls a minute
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	handler, err := handlers.New(handlers.Config{
		Rankings: rankings, Boards: boards.Definitions, Tokens: verifier,
		Limits: limit.New(limit.Limits{User: unreached, Address: unreached}, limit.NewLocalCounter(time.Now), testenv.Log()), LimitAddresses: true,
		Registry: prometheus.NewRegistry(), Log: log, Requests: log, Clock: clock,
	})
	if err != nil {
		b.Fatal(err)
	}
	return &rankingBench{handler, tokens}
}

// newBenchDirectory returns a directory in whose memory everybody is.
func newBenchDirectory(b *testing.B, env *testenv.Env) (*directory.Service, []models.UserID) {
	b.Helper()
	d := directory.New(directory.Options{
		Store:  directory.NewStore(env.Gorm),
		Memory: int64(4 * config.Default().Directory.Memory), Log: env.Log,
	})
	b.Cleanup(d.Close)
	users, profiles := make([]models.UserID, benchPeople), make([][2]string, benchPeople)
	for i := range users {
		p := benchProfile(i)
		users[i], profiles[i] = benchUser(i), [2]string{p.Nickname, p.AvatarURL}
	}
	rows := testenv.Must(d.EnsureMany(b.Context(), users))
	err := env.Gorm.Exec(`UPDATE users SET nickname = p.value ->> 0, avatar_url = p.value ->> 1
		FROM json_each(?) AS p WHERE user_id = p.key + 1`,
		string(testenv.Must(json.Marshal(profiles)))).Error
	if err != nil {
		b.Fatal(err)
	}
	for part := range slices.Chunk(rows, benchPeople/100) {
		testenv.Must(d.Records(b.Context(), part))
	}
	for i, row := range rows {
		if row != models.RowID(i+1) {
			b.Fatalf("user %d has row %d", i, row)
		}
	}
	return d, users
}

// benchUser returns an id of the length that WeChat gives its users.
func benchUser(i int) models.UserID {
	random := mathrand.New(mathrand.NewPCG(3, uint64(i)))
	return models.UserID(fmt.Sprintf("oX%08d%016x%02d", i, random.Uint64(), i%100))
}

var (
	benchGiven = []string{
		"Ann", "Bjørn", "Zoë", "Mehmet", "Олег", "晓明", "美玲", "ゆうき", "지훈", "José", "Fatima", "O'Neil", "Nguyễn",
	}
	benchFamily = []string{
		" Lee", " Müller", "", " García", " <3", " & Co", " 王", " 🏃", " van der Berg", " \"Speedy\"", " Иванова",
	}
)

func benchProfile(i int) models.Profile {
	random := mathrand.New(mathrand.NewPCG(4, uint64(i)))
	var image [16]byte
	binary.LittleEndian.PutUint64(image[:], random.Uint64())
	binary.LittleEndian.PutUint64(image[8:], random.Uint64())
	return models.Profile{
		Nickname:  benchGiven[random.IntN(len(benchGiven))] + benchFamily[random.IntN(len(benchFamily))],
		AvatarURL: "https://cdn.example.com/avatars/" + hex.EncodeToString(image[:]) + "/128.webp",
	}
}

// newBenchTokens returns a token of each user, and their verifier, which has seen
// them all.
func newBenchTokens(b *testing.B, users []models.UserID) (*auth.Verifier, []string) {
	b.Helper()
	secret := []byte("a secret of thirty-two characters")
	verifier := auth.NewVerifier(auth.VerifierConfig{Secret: secret})
	b.Cleanup(verifier.Close)
	tokens := make([]string, len(users))
	for i, user := range users {
		tokens[i] = testenv.Must(auth.SignToken(secret, user, "", "", "", time.Now(), time.Hour))
		if _, err := verifier.Verify(tokens[i]); err != nil {
			b.Fatal(err)
		}
	}
	return verifier, tokens
}

// memoryCache is a near cache of one bucket. It has the scores of the rows.
type memoryCache []models.Composite

func newMemoryCache(b *testing.B, bucket *models.Bucket) memoryCache {
	b.Helper()
	random := mathrand.New(mathrand.NewPCG(5, 6))
	cache := make(memoryCache, benchPeople+1)
	for row := range cache {
		at := bucket.StartsAt.Add(time.Duration(random.Int64N(int64(12 * time.Hour))))
		cache[row] = testenv.Must(score.Of(bucket).Encode(models.Points(random.Int64N(30_000)), models.TimestampOf(at)))
	}
	return cache
}

func (m memoryCache) Composites(_ *models.Bucket, users []models.RowID, composites []models.Composite) (time.Time, bool) {
	for i, user := range users {
		composites[i] = m[user]
	}
	return testenv.Noon, true
}

func (memoryCache) Window(*models.Bucket, models.Entry, int, int) (w board.Window, asOf time.Time, ok bool) {
	return w, asOf, false
}

func (memoryCache) Fresh(time.Time) bool { return true }

// memoryFriends has the friends of each row, in ascending order.
type memoryFriends [][benchFriends]uint32

func newMemoryFriends() memoryFriends {
	random := mathrand.New(mathrand.NewPCG(7, 8))
	friends := make(memoryFriends, benchPeople+1)
	for row := range friends {
		// A pseudo-random step that has no divisor in common with the number of people
		// gives friends that differ.
		first, step := random.IntN(benchPeople), 1+10*random.IntN(benchPeople/10)
		for i := range friends[row] {
			friend := 1 + (first+i*step)%benchPeople
			if friend == row {
				friend = 1 + (first+benchFriends*step)%benchPeople
			}
			friends[row][i] = uint32(friend)
		}
		slices.Sort(friends[row][:])
	}
	return friends
}

func (m memoryFriends) IDs(_ context.Context, user models.RowID) ([]models.RowID, error) {
	ids := make([]models.RowID, benchFriends, benchFriends+1)
	for i, friend := range m[user] {
		ids[i] = models.RowID(friend)
	}
	return ids, nil
}

func (m memoryFriends) Circle(ctx context.Context, user models.RowID) ([]models.RowID, time.Time, error) {
	ids, err := m.IDs(ctx, user)
	return ids, time.Time{}, err
}

func (m memoryFriends) Everybody(_ context.Context, user models.RowID) ([]models.CirclePerson, error) {
	people := make([]models.CirclePerson, benchFriends)
	for i, friend := range m[user] {
		people[i] = models.CirclePerson{User: models.RowID(friend), Since: testenv.Noon, Shown: true}
	}
	return people, nil
}

func (m memoryFriends) Since(_ context.Context, user, other models.RowID) (time.Time, bool, error) {
	if !slices.Contains(m[user][:], uint32(other)) {
		return time.Time{}, false, nil
	}
	return testenv.Noon, true, nil
}

func (m memoryFriends) IDsOf(context.Context, []models.RowID) (map[models.RowID][]models.RowID, error) {
	return map[models.RowID][]models.RowID{}, nil
}

// request returns a request for a page of the given size, whose token is to be set.
func (f *rankingBench) request(b *testing.B, limit int) *http.Request {
	b.Helper()
	address := fmt.Sprintf("/v1/boards/steps/friends?limit=%d", limit)
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.1:1234"
	r.Header["Authorization"] = []string{""}
	return r
}
