package importer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/models"
	"stepboard/services/operations/importer"
)

// A date stays the one that is written, whatever the clocks do on it. The same hour counts
// once, and twice if the clocks repeat it.
func TestImportHoursOfClockChanges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		zone, header string
		lines, want  []string
		bad          []int
	}{
		"the same hour twice": {
			zone:  "Asia/Shanghai",
			lines: []string{"1,2026-11-19 8:00,100", "1,2026-11-19 8:00,150", "2,2026-11-19 8:00,1", "1,2026-11-19 8:00,120", "1,2026-11-19 9:00,1"},
			want:  []string{"2 1 2026-11-19T01:00:00.000Z", "1 151 2026-11-19T02:00:00.000Z"},
		},
		"an hour that repeats": {
			zone: "Europe/Berlin",
			lines: []string{
				"1,2026-10-25 2:00,100", "1,2026-10-25 2:00,150", "1,2026-10-25 1:00,7", "1,2026-10-25 1:00,7",
				"2,2026-10-25 2:00,100", "3,2026-10-25 2:00,5", "3,2026-10-25 2:00,0",
			},
			want: []string{"1 257 2026-10-25T02:00:00.000Z", "2 100 2026-10-25T01:00:00.000Z", "3 5 2026-10-25T01:00:00.000Z"},
		},
		"two hours that repeat": {
			zone:  "Antarctica/Troll",
			lines: []string{"1,2026-10-25 1:00,1", "1,2026-10-25 1:00,2", "1,2026-10-25 2:00,3"},
			want:  []string{"1 6 2026-10-25T02:00:00.000Z"},
		},
		"an hour that is skipped": {
			zone: "Europe/Berlin", lines: []string{"1,2026-03-29 2:00,5"}, want: []string{"1 5 2026-03-29T02:00:00.000Z"},
		},
		"a midnight that is skipped": {
			zone: "Asia/Beirut", lines: []string{"1,2022-03-27 0:00,5", "1,2022-03-26 23:00,6"},
			want: []string{"1 5 2022-03-26T23:00:00.000Z", "1 6 2022-03-26T22:00:00.000Z"},
		},
		"a day that is skipped": {
			zone: "Pacific/Apia", lines: []string{"1,2011-12-30 13:00,5", "1,2011-12-31 0:00,6"},
			want: []string{"1 6 2011-12-30T11:00:00.000Z"}, bad: []int{2},
		},
		"a day without hours that is skipped": {
			zone: "Pacific/Apia", header: "user_id,date,steps", lines: []string{"1,2011-12-30,5", "1,2011-12-31,6"},
			want: []string{"1 6 2011-12-31T09:59:59.999Z"}, bad: []int{2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureIn(t, tt.zone)
			header := tt.header
			if header == "" {
				header = "Id,ActivityHour,StepTotal"
			}
			var r report
			if _, err := f.ImportSteps(t.Context(), strings.NewReader(header+"\n"+strings.Join(tt.lines, "\n")), f.board, importer.StepsImportOptions{}, &r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, append(f.stores.hot, f.stores.cold...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !slices.Equal(r.bad, tt.bad) {
				t.Errorf("bad lines %v: %q", r.bad, r.reasons)
			}
		})
	}
}

// Days of a file are the users' own if the board's are. Without a time, a total counts as
// reached when its day ended everywhere; hours are read as UTC.
func TestImportLocalDays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []string
		bad  []int
	}{
		"days": {
			"user_id,date,steps\n1,2026-11-18,5\n2,2026-11-20,6\n3,2026-11-21,7\n4,2026-11-22,8\n",
			[]string{"1 5 2026-11-19T11:59:59.999Z", "2 6 2026-11-20T13:00:00.000Z", "3 7 2026-11-20T13:00:00.000Z"}, []int{5},
		},
		"hours": {
			"Id,ActivityHour,StepTotal\n1,2026-11-18 23:00,5\n1,2026-11-19 00:00,6\n2,2026-11-21 01:00,7\n",
			[]string{"1 5 2026-11-19T00:00:00.000Z", "1 6 2026-11-19T01:00:00.000Z", "2 7 2026-11-20T13:00:00.000Z"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureIn(t, models.LocalZone)
			var r report
			if _, err := f.ImportSteps(t.Context(), strings.NewReader(tt.text), f.board, importer.StepsImportOptions{}, &r); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.bad, tt.bad) {
				t.Errorf("bad lines %v", r.bad)
			}
			if diff := cmp.Diff(tt.want, f.stores.hot); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
