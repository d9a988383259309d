package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/jobs"
	"stepboard/services/platform/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// never is a schedule that does not fire during a test.
var never = cron.Every(1000 * time.Hour)

// stage holds the dependencies of a scheduler, in a test's bubble of time.
type stage struct {
	t        *testing.T
	leases   *lease.Service
	log      bytes.Buffer
	registry *prometheus.Registry
	clock    *testenv.Clock

	mu    sync.Mutex
	ended []string // the calls of Ended
}

func newStage(t *testing.T) *stage {
	return &stage{t: t, leases: lease.NewLocal(), registry: prometheus.NewRegistry(), clock: testenv.NewClock(testenv.Noon)}
}

// start runs a scheduler; stop ends it and returns when it has ended.
func (s *stage) start(list ...jobs.Job) (stop func()) {
	log := slog.New(slog.NewJSONHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	scheduler := jobs.New(s.leases, s.clock.Now, log, s.registry, list...)
	scheduler.Ended = func(job string, start time.Time, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, fmt.Sprint(job, " ", start.IsZero(), " ", err))
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		scheduler.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// lines returns the logged lines. The scheduler must be idle.
func (s *stage) lines() []map[string]any {
	s.t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(s.log.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			s.t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// figures are the values of a job's metrics. durations is the number of runs.
type figures struct{ lastSuccess, durations, rows, failures float64 }

func (s *stage) figures(job string) (f figures) {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	found := 0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if label := m.GetLabel()[0]; label.GetName() != "job" || label.GetValue() != job {
				continue
			}
			found++
			switch family.GetName() {
			case "stepboard_job_last_success_timestamp_seconds":
				f.lastSuccess = m.GetGauge().GetValue()
			case "stepboard_job_duration_seconds":
				f.durations = float64(m.GetHistogram().GetSampleCount())
			case "stepboard_job_rows_total":
				f.rows = m.GetCounter().GetValue()
			case "stepboard_job_failures_total":
				f.failures = m.GetCounter().GetValue()
			default:
				s.t.Errorf("unexpected metric %s", family.GetName())
			}
		}
	}
	if found != 4 {
		s.t.Errorf("%d metrics of %s", found, job)
	}
	return f
}

// Every job has metrics with zeros before its first run, also if another process runs it.
func TestMetricsFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		stop := s.start(
			jobs.Job{Name: "archive", Schedule: never, Deadline: time.Hour, MetricsOnly: true},
			jobs.Job{Name: "reconcile", Schedule: never, Deadline: time.Hour, MetricsOnly: true},
		)
		synctest.Wait()
		stop()
		for _, job := range []string{"archive", "reconcile"} {
			if got := s.figures(job); got != (figures{}) {
				t.Errorf("%s: %+v", job, got)
			}
		}
		problems, err := testutil.GatherAndLint(s.registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("the metrics are unconventional: %v %v", problems, err)
		}
		if lines := s.lines(); len(lines) > 0 {
			t.Errorf("logged %v", lines)
		}
	})
}

// Each run logs one line and changes the metrics, besides lines for debugging.
func TestOneRun(t *testing.T) {
	t.Parallel()
	noon := float64(testenv.Noon.Unix())
	tests := []struct {
		name  string
		run   func(context.Context) (int64, error)
		want  figures
		level string
		err   string
	}{
		{"success", func(context.Context) (int64, error) {
			<-time.After(1500 * time.Millisecond)
			return 7, nil
		}, figures{lastSuccess: noon, durations: 1, rows: 7}, "INFO", ""},
		{"nothing to do", func(context.Context) (int64, error) {
			return 0, nil
		}, figures{lastSuccess: noon, durations: 1}, "INFO", ""},
		{"failure", func(context.Context) (int64, error) {
			return 3, errors.New("it went wrong")
		}, figures{durations: 1, rows: 3, failures: 1}, "ERROR", "it went wrong"},
		{"panic", func(context.Context) (int64, error) {
			panic("it crashed")
		}, figures{durations: 1, failures: 1}, "ERROR", "panic: it crashed"},
		{"deadline", func(ctx context.Context) (int64, error) {
			<-ctx.Done()
			return 2, ctx.Err()
		}, figures{durations: 1, rows: 2, failures: 1}, "ERROR", "context deadline exceeded"},
		{"a lease of its own is held", func(context.Context) (int64, error) {
			return 0, fmt.Errorf("archive steps: %w", lease.ErrHeld)
		}, figures{durations: 1, failures: 1}, "ERROR", "archive steps: somebody else holds the lease"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				var took time.Duration
				stop := s.start(jobs.Job{Name: "archive", Schedule: never, Deadline: time.Minute, Run: func(ctx context.Context) (int64, error) {
					start := time.Now()
					defer func() { took = time.Since(start) }()
					return test.run(ctx)
				}})
				<-time.After(time.Hour)
				if got := s.figures("archive"); got != test.want {
					t.Errorf("%+v, want %+v", got, test.want)
				}
				stop()
				known, outcome := "archive true <nil>", "archive false <nil>"
				if test.err != "" {
					outcome = "archive false " + test.err
				}
				if len(s.ended) != 2 || !slices.Contains(s.ended, known) || !slices.Contains(s.ended, outcome) {
					t.Errorf("noted %q, want %q and %q", s.ended, known, outcome)
				}
				lines := s.lines()
				if len(lines) != 3 || lines[0]["msg"] != "job begins" || lines[1]["msg"] != "job ends" {
					t.Fatalf("logged %v", lines)
				}
				line := lines[2]
				if line["msg"] != "job" || line["job"] != "archive" || line["level"] != test.level || line["rows"] != test.want.rows || line["ms"] != took.Seconds()*1000 {
					t.Errorf("logged %v", line)
				}
				if got, _ := line["error"].(string); got != test.err {
					t.Errorf("logged the error %q", got)
				}
				stack, _ := line["stack"].(string)
				if crashed := test.name == "panic"; crashed != strings.Contains(stack, "TestOneRun") {
					t.Errorf("logged the stack %q", stack)
				}
			})
		})
	}
}

// A job that runs on another replica is left to that one, which is no failure.
func TestAnotherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		runs := 0
		err := s.leases.Hold(t.Context(), "job/archive", func(context.Context) error {
			stop := s.start(jobs.Job{Name: "archive", Schedule: cron.Every(time.Minute), Deadline: time.Hour, Run: func(context.Context) (int64, error) {
				runs++
				return 0, nil
			}})
			<-time.After(30 * time.Second)
			stop()
			return nil
		})
		if err != nil || runs != 0 {
			t.Errorf("%d runs, %v", runs, err)
		}
		if got := s.figures("archive"); got != (figures{}) {
			t.Errorf("%+v", got)
		}
		if lines := s.lines(); len(lines) != 1 || lines[0]["level"] != "DEBUG" || lines[0]["msg"] != "job is running on another replica" || lines[0]["job"] != "archive" {
			t.Errorf("logged %v", lines)
		}
	})
}

// A job runs at the start and on its schedule.
func TestSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		var runs atomic.Int64
		stop := s.start(jobs.Job{Name: "archive", Schedule: cron.Every(time.Minute), Deadline: time.Hour, Run: func(context.Context) (int64, error) {
			runs.Add(1)
			return 1, nil
		}})
		for minute := range int64(4) {
			<-time.After(time.Second) // not on the minute
			synctest.Wait()
			if runs.Load() != minute+1 {
				t.Errorf("after %d minutes: %d runs", minute, runs.Load())
			}
			<-time.After(59 * time.Second)
		}
		stop()
		ran := runs.Load()
		<-time.After(time.Hour)
		if got := runs.Load(); got != ran {
			t.Errorf("%d runs after the end", got-ran)
		}
	})
}

// A run that takes longer than the interval is not overtaken by the next.
func TestNoOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		running, runs := 0, 0
		stop := s.start(jobs.Job{Name: "archive", Schedule: cron.Every(time.Minute), Deadline: time.Hour, Run: func(context.Context) (int64, error) {
			running, runs = running+1, runs+1
			if running > 1 {
				t.Error("the job overlaps itself")
			}
			<-time.After(150 * time.Second)
			running--
			return 0, nil
		}})
		<-time.After(10*time.Minute + 10*time.Second)
		stop()
		still := 0
		for _, line := range s.lines() {
			if line["msg"] == "job is still running" {
				still++
			}
		}
		// At 0, 3, 6 and 9 minutes; in between it was still running.
		if runs != 4 || still != 7 {
			t.Errorf("%d runs, %d put off", runs, still)
		}
	})
}

// Stopping waits for the run in progress, whose context ends. That is no
// failure.
func TestStopInTheMiddleOfARun(t *testing.T) {
	t.Parallel()
	for _, last := range []float64{1, 2} { // the run at the start, or one of the schedule
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			runs, ended := 0.0, false
			stop := s.start(jobs.Job{Name: "archive", Schedule: cron.Every(time.Minute), Deadline: time.Hour, Run: func(ctx context.Context) (int64, error) {
				if runs++; runs < last {
					return 0, errors.New("not yet")
				}
				<-ctx.Done()
				<-time.After(10 * time.Second) // cleaning up takes a while
				ended = true
				return 5, ctx.Err()
			}})
			<-time.After(90 * time.Second)
			stop()
			if !ended {
				t.Error("the scheduler ended before its job")
			}
			if got := s.figures("archive"); got != (figures{durations: last, rows: 5, failures: last - 1}) {
				t.Errorf("%+v", got)
			}
			lines := slices.DeleteFunc(s.lines(), func(line map[string]any) bool { return line["level"] == "DEBUG" })
			if line := lines[len(lines)-1]; len(lines) != int(last) || line["level"] != "INFO" || line["error"] != "context canceled" {
				t.Errorf("logged %v", lines)
			}
		})
	}
}

// A job that takes its lease itself runs on every process. If the lease is held
// the run counts as another replica's.
func TestAJobWithALeaseOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		job := func(name, holds string) jobs.Job {
			return jobs.Job{Name: name, Schedule: never, Deadline: time.Minute, OwnLease: true, Run: func(ctx context.Context) (int64, error) {
				return 1, s.leases.Hold(ctx, holds, func(context.Context) error { return nil })
			}}
		}
		err := s.leases.Hold(t.Context(), "held", func(ctx context.Context) error {
			return s.leases.Hold(ctx, "job/free", func(context.Context) error {
				stop := s.start(job("free", "something"), job("refused", "held"))
				synctest.Wait()
				stop()
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.figures("free"), (figures{lastSuccess: float64(testenv.Noon.Unix()), durations: 1, rows: 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got := s.figures("refused"); got != (figures{}) {
			t.Errorf("%+v", got)
		}
	})
}

// A job of another role shows its metrics and never runs. A transient failure
// is a warning, and counts.
func TestOtherRolesAndTransientFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		fail := func(context.Context) (int64, error) { return 0, errors.New("it went wrong") }
		stop := s.start(
			jobs.Job{Name: "elsewhere", Schedule: cron.Every(time.Second), Deadline: time.Minute, MetricsOnly: true, Run: fail},
			jobs.Job{Name: "transient", Schedule: never, Deadline: time.Minute, Transient: true, Run: fail},
		)
		<-time.After(time.Minute)
		stop()
		if got := s.figures("elsewhere"); got != (figures{}) {
			t.Errorf("%+v", got)
		}
		if got := s.figures("transient"); got != (figures{durations: 1, failures: 1}) {
			t.Errorf("%+v", got)
		}
		lines := s.lines()
		if line := lines[len(lines)-1]; line["level"] != "WARN" || line["job"] != "transient" || line["error"] != "it went wrong" {
			t.Errorf("logged %v", line)
		}
	})
}
