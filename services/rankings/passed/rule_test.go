package passed

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// sight is one look at the ranking of a user, as the definition sees it.
type sight struct {
	bucket string
	own    models.Composite
	// ahead and behind are the others who have a place.
	ahead, behind []models.RowID
	// told says that the user was told then.
	told bool
}

// whoPassed is the definition: those who are ahead at the last of some sights, and were behind at an
// earlier one since the user was told last. In between they had a place of the same day, and the
// user's own score did not fall.
func whoPassed(sights []sight) (passed []models.RowID) {
	now := len(sights) - 1
	for _, user := range sights[now].ahead {
		for k := now - 1; k >= 0; k-- {
			s, next := sights[k], sights[k+1]
			if s.bucket != next.bucket || next.own < s.own {
				break
			}
			if slices.Contains(s.behind, user) {
				passed = append(passed, user)
				break
			}
			if s.told || !slices.Contains(s.ahead, user) {
				break
			}
		}
	}
	return passed
}

// Who has passed is what the definition says, after any looks.
func TestWhoHasPassed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var (
			sights []sight
			last   look
		)
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			s := sight{
				bucket: rapid.SampledFrom([]string{"20261120", "20261120", "20261120", "20261121"}).Draw(t, "bucket"),
				own:    models.Composite(rapid.SampledFrom([]int{5, 5, 5, 6, 7}).Draw(t, "own")),
			}
			for _, user := range rapid.Permutation([]models.RowID{2, 3, 4, 5, 6}).Draw(t, "order") {
				switch rapid.IntRange(0, 5).Draw(t, "place") {
				case 0: // none
				case 1, 2:
					s.ahead = append(s.ahead, user)
				default:
					s.behind = append(s.behind, user)
				}
			}
			sights = append(sights, s)
			want := whoPassed(sights)
			at := ranking.Neighbours{Mine: models.Entry{User: 1, Composite: s.own}, Ahead: s.ahead, Behind: s.behind}
			got, told, untold := last.compare(s.bucket, at)
			if !slices.Equal(got, want) {
				t.Fatalf("passed by %v, want %v, after %+v", got, want, sights)
			}
			last = untold
			if len(got) > 0 && rapid.Bool().Draw(t, "told") {
				last, sights[len(sights)-1].told = told, true
			}
		}
	})
}

// The place before is that of the last look before the first of those who are named has passed.
func TestThePlaceBefore(t *testing.T) {
	t.Parallel()
	at := func(ahead, behind []models.RowID) ranking.Neighbours {
		return ranking.Neighbours{Mine: models.Entry{User: 1, Composite: 5}, Ahead: ahead, Behind: behind}
	}
	_, last, _ := look{}.compare("day", at([]models.RowID{2}, []models.RowID{3, 4}))
	_, _, last = last.compare("day", at([]models.RowID{2, 3}, []models.RowID{4}))
	passed, told, _ := last.compare("day", at([]models.RowID{4, 3, 2}, nil))
	if diff := cmp.Diff([]models.RowID{4, 3}, passed); diff != "" || last.Rank != 2 || told.Rank != 4 {
		t.Errorf("passed by %v, from %d to %d", passed, last.Rank, told.Rank)
	}
}

// Of very many, those nearest behind are remembered.
func TestManyBehind(t *testing.T) {
	t.Parallel()
	var all []models.RowID
	for row := range models.RowID(1000) {
		all = append(all, row+2)
	}
	_, last, _ := look{}.compare("day", ranking.Neighbours{Mine: models.Entry{User: 1, Composite: 5}, Behind: all})
	passed, _, untold := last.compare("day", ranking.Neighbours{Mine: models.Entry{User: 1, Composite: 5}, Ahead: all[190:], Behind: all[:190]})
	if !slices.Equal(passed, all[190:200]) || len(untold.Behind) != mostBehind || !slices.Equal(untold.Behind[:10], passed) {
		t.Errorf("passed by %v; %d are behind", passed, len(untold.Behind))
	}
}

// A user is told at most once an hour and five times a day, between 8 and 22 o'clock where the user
// is.
func TestWhenAUserMayBeTold(t *testing.T) {
	t.Parallel()
	shanghai := testenv.Must(time.LoadLocation("Asia/Shanghai"))
	at := func(clock string) time.Time {
		return testenv.Must(time.ParseInLocation(time.DateTime, "2026-11-"+clock, shanghai))
	}
	for _, tt := range []struct {
		name string
		told []string
		now  string
		want bool
	}{
		{"the first", nil, "20 12:00:00", true},
		{"early", nil, "20 07:59:59", false},
		{"in the morning", nil, "20 08:00:00", true},
		{"in the evening", nil, "20 21:59:59", true},
		{"late", nil, "20 22:00:00", false},
		{"within an hour", []string{"20 11:00:01"}, "20 12:00:00", false},
		{"after an hour", []string{"20 11:00:00"}, "20 12:00:00", true},
		{"the fifth", []string{"20 08:00:00", "20 09:00:00", "20 10:00:00", "20 11:00:00"}, "20 12:00:00", true},
		{"the sixth", []string{"20 08:00:00", "20 09:00:00", "20 10:00:00", "20 11:00:00", "20 12:00:00"}, "20 21:00:00", false},
		{"the next day", []string{"19 17:00:00", "19 18:00:00", "19 19:00:00", "19 20:00:00", "19 21:00:00"}, "20 08:00:00", true},
	} {
		var s seen
		for _, then := range tt.told {
			s.tell(at(then))
		}
		if got := s.may(at(tt.now).UTC(), shanghai); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	var s seen
	if berlin := testenv.Must(time.LoadLocation("Europe/Berlin")); s.may(at("20 12:00:00"), berlin) {
		t.Error("told at 5 o'clock where the user is")
	}
	for range 9 {
		s.tell(at("20 12:00:00"))
	}
	if len(s.Told) != mostADay {
		t.Errorf("%d times are remembered", len(s.Told))
	}
}

// A notice is not sent after the day, nor at night.
func TestUntilWhenANoticeIsSent(t *testing.T) {
	t.Parallel()
	shanghai, honolulu := testenv.Must(time.LoadLocation("Asia/Shanghai")), testenv.Must(time.LoadLocation("Pacific/Honolulu"))
	now := time.Date(2026, 11, 20, 21, 0, 0, 0, shanghai) // 3 o'clock in Honolulu
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, shanghai)
	if got := until(now, midnight, shanghai); !got.Equal(now.Add(time.Hour)) {
		t.Errorf("until %v", got)
	}
	if got := until(now, midnight, honolulu); !got.Equal(midnight) {
		t.Errorf("until %v", got)
	}
}

// What was remembered is read as it was; anything else counts as unknown.
func FuzzSeen(f *testing.F) {
	f.Add(`{"told":[1795000000],"boards":{"steps":{"bucket":"20261120","score":5,"rank":2,"behind":[3,4]}}}`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, text string) {
		s, known := decodeSeen(text)
		if !known {
			return
		}
		again, known := decodeSeen(s.encode())
		if got, want := again.encode(), s.encode(); got != want || !known {
			t.Errorf("%s is read as %s", want, got)
		}
	})
}
