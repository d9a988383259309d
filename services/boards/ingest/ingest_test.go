package ingest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writer records the raises that it receives, or refuses them.
type writer struct {
	got [][]models.Raise
	err error
}

func (s *writer) Raise(_ context.Context, raises []models.Raise) []error {
	s.got = append(s.got, slices.Clone(raises))
	if s.err == nil {
		return nil
	}
	return slices.Repeat([]error{s.err}, len(raises))
}

func (s *writer) Server(context.Context, models.Raise) string { return "" }

func newService(t *testing.T, env *testenv.Env) (*ingest.Service, *writer) {
	t.Helper()
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	if err := c.Definitions.Define(t.Context(), env.Config.BoardDefinitions()); err != nil {
		t.Fatal(err)
	}
	s := &writer{}
	w := ingest.Direct(s, func(store ingest.Store) ingest.Store { return store })
	t.Cleanup(w.Close)
	return ingest.New(c, testenv.Numbers{}, nil, w, env.Clock.Now), s
}

func day(text string) models.Date { return testenv.Must(models.ParseDate(text)) }

func TestAcceptStampsWithTheServersTime(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, written := newService(t, env)
		env.Clock.Set(testenv.Noon.Add(123_456_789 * time.Nanosecond))
		accepted, rejected, err := service.Accept(t.Context(), "steps", []ingest.Upload{
			{User: "1001", Date: day("2026-11-20"), Score: 15_000},
			{User: "1001", Date: day("2026-11-18"), Score: 0},
		})
		if err != nil || len(rejected) > 0 {
			t.Fatal(rejected, err)
		}
		at := models.TimestampOf(testenv.Noon.Add(123 * time.Millisecond))
		want := []ingest.Accepted{
			{Date: day("2026-11-20"), Score: 15_000, ReachedAt: at},
			{Index: 1, Date: day("2026-11-18"), Score: 0, ReachedAt: at},
		}
		if diff := cmp.Diff(want, accepted); diff != "" {
			t.Error(diff)
		}
		if len(written.got) != 1 || len(written.got[0]) != 2 {
			t.Fatalf("the writer received %v", written.got)
		}
		for i, raise := range written.got[0] {
			points, reachedAt := score.Of(raise.Bucket).Decode(raise.Composite)
			if raise.Bucket.Score(points) != want[i].Score || reachedAt != at || raise.User != 1001 {
				t.Errorf("update %d: user %v, %d at %d", i, raise.User, points, reachedAt)
			}
		}
	})
}

// A call loses nothing but its invalid uploads.
func TestAcceptTakesTheRest(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, written := newService(t, env)
		calls := map[string]func(context.Context, string, []ingest.Upload) ([]ingest.Accepted, []*ingest.ItemError, error){
			"Accept": service.Accept, "AcceptBatch": service.AcceptBatch,
		}
		invalid := []struct {
			date  string
			score int64
			want  models.Code
		}{
			{"2026-11-20", -1, models.CodeScoreOutOfRange},
			{"2026-11-20", 100_001, models.CodeScoreOutOfRange},
			{"2026-11-21", 5, models.CodeDateInFuture},
			{"2026-11-17", 5, models.CodeDateClosed},
		}
		for name, accept := range calls {
			written.got = nil
			var all []ingest.Upload
			for _, u := range invalid {
				all = append(all, ingest.Upload{User: "1", Date: day(u.date), Score: u.score}, ingest.Upload{User: "2", Date: day("2026-11-20"), Score: 7})
			}
			accepted, rejected, err := accept(t.Context(), "steps", all)
			if err != nil || len(accepted) != len(invalid) || len(rejected) != len(invalid) {
				t.Fatalf("%s: accepted %v, rejected %v, %v", name, accepted, rejected, err)
			}
			if len(written.got) != 1 || len(written.got[0]) != len(invalid) {
				t.Fatalf("%s: the writer received %v", name, written.got)
			}
			for i, u := range invalid {
				if r := rejected[i]; r.Index != 2*i || r.Err.Code != u.want || accepted[i].Score != 7 || written.got[0][i].User != 2 {
					t.Errorf("%s: rejected %v, accepted %v, want %s", name, r, accepted[i], u.want)
				}
			}
			if accepted, rejected, err := accept(t.Context(), "steps", all[:1]); err != nil || len(accepted) > 0 || len(rejected) != 1 || len(written.got) != 1 {
				t.Errorf("%s, with none valid: accepted %v, rejected %v, %v", name, accepted, rejected, err)
			}
			if _, _, err := accept(t.Context(), "nix", all); models.CodeOf(err) != models.CodeBoardNotFound {
				t.Errorf("%s, with an unknown board: %v", name, err)
			}
		}
	})
}

// Uploads that the writer can't store are not acknowledged.
func TestAcceptReturnsTheWritersError(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, written := newService(t, env)
		written.err = models.Unavailable("test", errors.New("away"))
		uploads := []ingest.Upload{{User: "1", Date: day("2026-11-20"), Score: 5}}
		if accepted, _, err := service.Accept(t.Context(), "steps", uploads); accepted != nil || models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("accepted %v, %v", accepted, err)
		}
		if accepted, _, err := service.AcceptBatch(t.Context(), "steps", uploads); accepted != nil || models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("accepted %v, %v", accepted, err)
		}
	})
}
