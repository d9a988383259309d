package importer_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"unicode"

	"stepboard/services/operations/importer"
)

// Each line of a file of friendships is stored or reported, and what was stored can be
// written as a file that is read as the same.
func FuzzImportFriends(f *testing.F) {
	f.Add("\ufeff# a comment\n\n0 1\n1\t2\n2,3\n4 4\n5\n5 6 7\na 6\n-2 6\n9223372036854775807 6\n", int64(1))
	f.Add("-9223372036854775808 -9223372036854775807", int64(-9223372036854775800))
	f.Add("user1_id;user2_id\n1; 2\nNULL;1\n", int64(0))
	f.Add("\"a,b\",\"c\"\"d\"\nauth0|5f7c c\n\"a\" b\n\"a\nb\",c", int64(0))
	fixture := newFixture(f)
	read := func(t *testing.T, text string, offset int64) (*fakeStores, *report, error) {
		t.Helper()
		stores, r := newFakeStores(), &report{}
		service := *fixture.Service
		service.Friends, service.Directory = stores, stores
		result, err := service.ImportFriends(t.Context(), strings.NewReader(text), importer.FriendsOptions{EdgesOptions: importer.EdgesOptions{Offset: offset}}, r)
		if result.Added != len(stores.edges) || err != nil && result.Added > 0 {
			t.Fatalf("%q with offset %d: %+v, %d stored, %v", text, offset, result, len(stores.edges), err)
		}
		r.lines -= result.Self + result.OneWay
		return stores, r, err
	}
	f.Fuzz(func(t *testing.T, text string, offset int64) {
		stores, r, err := read(t, text, offset)
		if err != nil {
			return // the file is refused as a whole
		}
		for _, e := range stores.edges {
			if !e.A.Valid() || !e.B.Valid() || e.A == e.B {
				t.Errorf("%q with offset %d makes %q and %q friends", text, offset, e.A, e.B)
			}
		}
		if added, bad := len(stores.edges), len(r.bad); added+bad != r.lines {
			t.Errorf("%q with offset %d: of %d lines %d are stored and %d bad", text, offset, r.lines, added, bad)
		}
		var file strings.Builder
		w := csv.NewWriter(&file)
		_ = w.Write([]string{"user1_id", "user2_id"}) // the first two ids may look like a header
		for _, e := range stores.edges {
			_ = w.Write([]string{string(e.A), string(e.B)}) // Flush reports its error
		}
		if w.Flush(); w.Error() != nil {
			t.Fatal(w.Error())
		}
		if again, _, err := read(t, file.String(), 0); err != nil || !slices.Equal(stores.edges, again.edges) {
			t.Errorf("%q with offset %d is %q, and then %q, %v", text, offset, stores.edges, again.edges, err)
		}
	})
}

// Each line of a step file is stored or reported, every score is one of the board's, and
// importing the file again stores the same.
func FuzzImportSteps(f *testing.F) {
	f.Add("user_id,date,steps\n1001,2026-11-20,12345\n\"a,b\",2026-11-01,0\n1001,2026-11-21,5\n")
	f.Add("Id,ActivityHour,StepTotal\n1,2026-11-20 9:00,7\n1,2026-11-20 8:00,0\n1,2026-11-19 23:00,999999999\n")
	f.Add("StepTotal;Id;ActivityHour\n5;1;11/9/2026 1:00:00 PM\n6;1;11/9/2026 01:00 pm\n7;1;11/19/2026 12:00 AM\n")
	f.Add("\ufeffuser_id, date, steps\r\n 1 , 2026-11-20 , 5 \r\n")
	f.Add("user_id,date,steps\n1,0001-01-01,1\n1,9999-12-31,1\n1,2026-11-20,99999999999999999999\n\"1\n")
	fixture := newFixture(f)
	read := func(t *testing.T, text string) (stores *fakeStores, r *report, err error) {
		t.Helper()
		stores, r = newFakeStores(), &report{}
		service := *fixture.Service
		service.Directory, service.Entries, service.Archive = stores, stores, stores
		service.RaiseHot, service.RaiseCold = stores.raise(&stores.hot), stores.raise(&stores.cold)
		result, err := service.ImportSteps(t.Context(), strings.NewReader(text), fixture.board, importer.StepsImportOptions{}, r)
		r.lines -= result.Empty
		return stores, r, err
	}
	f.Fuzz(func(t *testing.T, text string) {
		stores, r, err := read(t, text)
		if err != nil {
			return // the file is refused as a whole
		}
		for _, user := range stores.users {
			if !user.Valid() {
				t.Errorf("%q has user %q", text, user)
			}
		}
		// A day whose hours add up to too much is one bad line.
		if handled := r.done + len(r.bad); handled > r.lines || handled < r.lines && !strings.Contains(hourlyName(text), "hour") {
			t.Errorf("%q: of %d lines %d are stored and %d bad", text, r.lines, r.done, len(r.bad))
		}
		again, _, err := read(t, text)
		slices.Sort(stores.hot)
		slices.Sort(again.hot)
		slices.Sort(stores.archived)
		slices.Sort(again.archived)
		if err != nil || !slices.Equal(stores.hot, again.hot) || !slices.Equal(stores.archived, again.archived) {
			t.Errorf("%q is %q, and then %q, %v", text, stores.hot, again.hot, err)
		}
	})
}

// hourlyName returns a text as names of columns are compared.
func hourlyName(text string) string {
	return strings.Map(func(c rune) rune {
		if c = unicode.ToLower(c); c < 'a' || c > 'z' {
			return -1
		}
		return c
	}, text)
}
