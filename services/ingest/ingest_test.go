package ingest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/catalog"
	"stepboard/services/ingest"
	"stepboard/services/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writer records the raises that it receives, or refuses them.
type writer struct {
	got [][]models.Raise
	err error
}

func (s *writer) Submit(_ context.Context, raises []models.Raise) error {
	s.got = append(s.got, raises)
	return s.err
}

func newService(t *testing.T, env *testenv.Env) (*ingest.Service, *writer) {
	t.Helper()
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	if err := c.Definitions.Define(t.Context(), env.Config.BoardDefinitions()); err != nil {
		t.Fatal(err)
	}
	s := &writer{}
	return ingest.New(c, testenv.Numbers{}, s, s, false, env.Clock.Now), s
}

func day(text string) models.Date { return testenv.Must(models.ParseDate(text)) }

func TestAcceptStampsWithTheServersTime(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, written := newService(t, env)
		env.Clock.Set(testenv.Noon.Add(123_456_789 * time.Nanosecond))
		accepted, err := service.Accept(t.Context(), "steps", []ingest.Upload{
			{User: "1001", Date: day("2026-11-20"), Score: 15_000},
			{User: "1001", Date: day("2026-11-18"), Score: 0},
		})
		if err != nil {
			t.Fatal(err)
		}
		at := models.TimestampOf(testenv.Noon.Add(123 * time.Millisecond))
		want := []ingest.Accepted{
			{Date: day("2026-11-20"), Score: 15_000, ReachedAt: at},
			{Date: day("2026-11-18"), Score: 0, ReachedAt: at},
		}
		if diff := cmp.Diff(want, accepted); diff != "" {
			t.Error(diff)
		}
		if len(written.got) != 1 || len(written.got[0]) != 2 {
			t.Fatalf("the writer received %v", written.got)
		}
		for i, raise := range written.got[0] {
			points, reachedAt := score.Of(raise.Bucket).Decode(raise.Composite)
			if points != want[i].Score || reachedAt != at || raise.User != 1001 {
				t.Errorf("update %d: user %v, %d at %d", i, raise.User, points, reachedAt)
			}
		}
	})
}

// A user's list is accepted whole or not at all, and the error names the first
// invalid upload.
func TestAcceptChecksAllBeforeAny(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, written := newService(t, env)
		good := ingest.Upload{User: "1", Date: day("2026-11-20"), Score: 5}
		tests := []struct {
			name string
			bad  ingest.Upload
			want models.Code
		}{
			{"a negative score", ingest.Upload{User: "1", Date: day("2026-11-20"), Score: -1}, models.CodeScoreOutOfRange},
			{"a score too large", ingest.Upload{User: "1", Date: day("2026-11-20"), Score: 100_001}, models.CodeScoreOutOfRange},
			{"a future date", ingest.Upload{User: "1", Date: day("2026-11-21"), Score: 5}, models.CodeDateInFuture},
			{"a closed date", ingest.Upload{User: "1", Date: day("2026-11-17"), Score: 5}, models.CodeDateClosed},
		}
		for _, tt := range tests {
			_, err := service.Accept(t.Context(), "steps", []ingest.Upload{good, tt.bad, good})
			var item *ingest.ItemError
			if models.CodeOf(err) != tt.want || !errors.As(err, &item) || item.Index != 1 {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		if len(written.got) != 0 {
			t.Errorf("the writer received %v", written.got)
		}
		if _, err := service.Accept(t.Context(), "nix", []ingest.Upload{good}); models.CodeOf(err) != models.CodeBoardNotFound {
			t.Errorf("an unknown board: %v", err)
		}
	})
}

// A backend's batch loses nothing but its invalid uploads.
func TestAcceptValidTakesTheRest(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, written := newService(t, env)
		rejected, err := service.AcceptValid(t.Context(), "steps", []ingest.Upload{
			{User: "1", Date: day("2026-11-20"), Score: -1},
			{User: "2", Date: day("2026-11-20"), Score: 5},
			{User: "3", Date: day("2026-11-30"), Score: 5},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(rejected) != 2 || rejected[0].Index != 0 || rejected[1].Index != 2 {
			t.Errorf("rejected %v", rejected)
		}
		if len(written.got) != 1 || len(written.got[0]) != 1 || written.got[0][0].User != 2 {
			t.Errorf("the writer received %v", written.got)
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
		if accepted, err := service.Accept(t.Context(), "steps", uploads); accepted != nil || models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("accepted %v, %v", accepted, err)
		}
		if rejected, err := service.AcceptValid(t.Context(), "steps", uploads); rejected != nil || models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("rejected %v, %v", rejected, err)
		}
	})
}
