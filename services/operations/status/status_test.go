package status_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/operations/status"
)

// process is a process that reports.
type process struct {
	*status.Reporter
	streams int
	refused int64
	latency []int64
	queue   time.Duration
}

func newProcess(env *testenv.Env, roles string) *process {
	p := &process{latency: []int64{0, 0, 0}}
	p.Reporter = status.NewReporter(status.NewStore(env.Gorm), "1.2", roles, status.Source{
		Streams: func() int { return p.streams }, Refused: func() int64 { return p.refused },
		Latency: func() []int64 { return slices.Clone(p.latency) }, QueueAge: func(context.Context) time.Duration { return p.queue },
	}, env.Clock.Now, env.Log)
	return p
}

// due is an archive with three days to archive.
type due struct{}

func (due) Unfinished(context.Context) (int, error) { return 3, nil }

func overview(t *testing.T, env *testenv.Env) status.Overview {
	t.Helper()
	return testenv.Must(status.New(status.NewStore(env.Gorm), due{}, nil, nil, env.Clock.Now).Overview(t.Context()))
}

func report(t *testing.T, p *process) {
	t.Helper()
	if err := p.Report(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Processes are listed until they have reported nothing for a minute.
func TestProcesses(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		first := newProcess(env, "api,jobs")
		first.streams, first.refused = 7, 100
		report(t, first)
		env.Clock.Advance(10 * time.Second)
		second := newProcess(env, "consumer")
		report(t, second)
		first.refused = 104
		report(t, first)
		o := overview(t, env)
		if len(o.Processes) != 2 || o.Processes[1].Roles != "consumer" {
			t.Fatalf("processes %+v", o.Processes)
		}
		p := o.Processes[0]
		if p.Roles != "api,jobs" || p.Streams != 7 || p.Refused != 4 || p.Version != "1.2" || p.Host == "" ||
			!p.StartedAt.Equal(testenv.Noon) || !p.SeenAt.Equal(testenv.Noon.Add(10*time.Second)) {
			t.Errorf("the first process is %+v", p)
		}
		env.Clock.Advance(61 * time.Second)
		if o := overview(t, env); len(o.Processes) != 0 {
			t.Errorf("after a minute: %+v", o.Processes)
		}
		for range 7 { // the refused calls are more than a minute old
			report(t, second)
			report(t, first)
		}
		var rows int64
		if err := env.Gorm.Model(&models.Process{}).Count(&rows).Error; err != nil || rows != 2 {
			t.Errorf("%d rows, %v", rows, err)
		}
		if o := overview(t, env); o.Processes[0].Refused != 0 {
			t.Errorf("refused within a minute: %d", o.Processes[0].Refused)
		}
		env.Clock.Advance(2 * time.Minute)
		report(t, second)
		if err := env.Gorm.Model(&models.Process{}).Count(&rows).Error; err != nil || rows != 1 {
			t.Errorf("%d rows remain, %v", rows, err)
		}
	})
}

// Each process stores its figures once a minute; the last hour has their sums, and nothing older
// is kept. What could not be stored is stored by the next report.
func TestLastHour(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		one, other := newProcess(env, "api"), newProcess(env, "api")
		one.latency = []int64{100, 100, 100} // before the first report
		report(t, one)
		report(t, other)
		if hour := overview(t, env).LastHour; len(hour) != 60 || hour[59].Latency != nil {
			t.Fatalf("before the first minute has ended: %+v", hour)
		}
		one.latency, one.refused, one.queue = []int64{103, 101, 100}, 2, time.Second
		other.latency, other.queue = []int64{0, 1, 1}, 3*time.Second
		env.Clock.Advance(30 * time.Second)
		report(t, one) // the minute has not ended
		env.Clock.Advance(30 * time.Second)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if one.Report(gone) == nil {
			t.Error("a report without a store succeeds")
		}
		report(t, one)
		report(t, other)
		report(t, one)
		hour := overview(t, env).LastHour
		want := status.Minute{At: testenv.Noon.UTC(), Calls: 6, Refused: 2, Latency: []int64{3, 2, 1}, QueueMS: 3000}
		if diff := cmp.Diff(want, hour[59]); diff != "" || len(hour) != 60 || hour[58].Calls != 0 {
			t.Fatalf("the minute that has ended (-want +got):\n%s", diff)
		}
		env.Clock.Advance(59 * time.Minute)
		report(t, one)
		if hour := overview(t, env).LastHour; hour[0].Calls != 6 {
			t.Errorf("an hour ago: %+v", hour[0])
		}
		env.Clock.Advance(2 * time.Minute)
		report(t, one)
		var rows []models.ProcessMinute
		if err := env.Gorm.Find(&rows).Error; err != nil || len(rows) != 1 {
			t.Errorf("after an hour %+v remain, %v", rows, err)
		}
	})
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	bounds := []float64{1, 2, 5}
	for _, c := range []struct {
		latency []int64
		part    float64
		want    float64
	}{
		{nil, 0.99, 0}, {[]int64{0, 0, 0, 0}, 0.5, 0}, {[]int64{10, 0, 0, 0}, 0.5, 0.5}, {[]int64{50, 50, 0, 0}, 0.99, 1.98},
		{[]int64{98, 0, 2, 0}, 0.99, 3.5}, {[]int64{1, 0, 0, 99}, 0.99, 5}, {[]int64{0, 0, 7, 0}, 1, 5},
	} {
		if got := status.Quantile(bounds, c.latency, c.part); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("Quantile of %v at %v is %v, want %v", c.latency, c.part, got, c.want)
		}
	}
}

// A process that ends removes itself, and stores the last runs of its jobs first.
func TestEnd(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newProcess(env, "jobs")
		report(t, p)
		p.JobEnded("archive", testenv.Noon, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.Run(ctx)
		if o := overview(t, env); len(o.Processes) != 0 || len(o.Jobs) != 1 {
			t.Errorf("it leaves %+v", o)
		}
	})
}

// A job has its last run on any process. A failure does not hide the last success, nor the
// other way round, and what could not be stored is stored later.
func TestJobs(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		one, other := newProcess(env, "jobs"), newProcess(env, "jobs")
		one.JobEnded("archive", time.Time{}, nil)
		report(t, one)
		if jobs := overview(t, env).Jobs; len(jobs) != 1 || jobs[0] != (models.JobRun{Name: "archive"}) {
			t.Fatalf("before the first run: %+v", jobs)
		}
		one.JobEnded("archive", testenv.Noon, nil)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if one.Report(gone) == nil {
			t.Error("a report without a store succeeds")
		}
		env.Clock.Advance(time.Minute)
		other.JobEnded("archive", env.Clock.Now(), errors.New("no space"))
		other.JobEnded("purge", env.Clock.Now(), nil)
		report(t, one)
		report(t, other)
		jobs := overview(t, env).Jobs
		if len(jobs) != 2 || jobs[0].Name != "archive" || jobs[1].Name != "purge" {
			t.Fatalf("jobs %+v", jobs)
		}
		j := jobs[0]
		if !j.SucceededAt.Equal(testenv.Noon) || !j.StartedAt.Equal(testenv.Noon.Add(time.Minute)) ||
			!j.FailedAt.Equal(testenv.Noon.Add(time.Minute)) || j.Error != "no space" {
			t.Errorf("the job is %+v", j)
		}
	})
}

// Each kind of waiting work is counted, and nothing else: reviews as the list has them.
func TestWork(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		if got, want := overview(t, env).Work, (status.Work{ArchiveDue: 3}); got != want {
			t.Errorf("an empty service has %+v, want %+v", got, want)
		}
		letters := []models.DeadLetter{
			{Position: "1", Payload: []byte("x"), QueuedAt: testenv.Noon, FailedAt: testenv.Noon},
			{Position: "2", Payload: []byte("x"), QueuedAt: testenv.Noon, FailedAt: testenv.Noon},
		}
		runs := []models.ArchiveRun{
			{Board: "steps", Bucket: "20261118", Run: 1, State: models.ArchiveFailed, StartedAt: testenv.Noon},
			{Board: "steps", Bucket: "20261117", Run: 1, State: models.ArchiveComplete, StartedAt: testenv.Noon},
		}
		day := models.DateOf(testenv.Noon)
		review := func(user models.RowID, dismissed *time.Time) models.Review {
			return models.Review{Board: "steps", Bucket: "20261120", Date: &day, Row: user, ReachedAt: testenv.Noon, FirstSeenAt: testenv.Noon, DismissedAt: dismissed}
		}
		looked := testenv.Noon
		found := []models.Review{review(1, nil), review(2, nil), review(3, &looked)}
		corrections := []models.Correction{ // one answers a review
			{Board: "steps", Bucket: &found[1].Bucket, Day: day, User: 2, Kind: models.CorrectionExclude, Reason: "x", Actor: "x", CreatedAt: testenv.Noon},
		}
		held := []models.Hold{
			{Board: "steps", Bucket: "20261120", Day: day, Row: 1, Score: 1, ReachedAt: testenv.Noon, HeldAt: testenv.Noon, State: models.HoldOpen},
			{Board: "steps", Bucket: "20261120", Day: day, Row: 2, Score: 1, ReachedAt: testenv.Noon, HeldAt: testenv.Noon, State: models.HoldRejected, DecidedAt: &looked},
		}
		for _, rows := range []any{&letters, &runs, &found, &corrections, &held} {
			if err := env.Gorm.Create(rows).Error; err != nil {
				t.Fatal(err)
			}
		}
		want := status.Work{ArchiveDue: 3, ArchiveFailed: 1, DeadLetters: 2, ReviewsOpen: 1, HoldsOpen: 1}
		if got := overview(t, env).Work; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}
