package phones_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/phones"
	"stepboard/services/platform/revoked"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// uploads takes all totals but those of refused days, or fails.
type uploads struct {
	taken   []ingest.Upload
	refused models.Date
	err     error
}

func (u *uploads) Accept(_ context.Context, _ string, items []ingest.Upload) (accepted []ingest.Accepted, rejected []*ingest.ItemError, err error) {
	if u.err != nil {
		return nil, nil, u.err
	}
	for i, item := range items {
		if item.Date == u.refused {
			rejected = append(rejected, &ingest.ItemError{Index: i, Err: models.Errorf(models.CodeDateClosed, "closed")})
			continue
		}
		u.taken = append(u.taken, item)
		accepted = append(accepted, ingest.Accepted{Date: item.Date, Score: item.Score})
	}
	return accepted, rejected, nil
}

// fixture is the service over a database with users.
type fixture struct {
	*testing.T

	env     *testenv.Env
	uploads *uploads
	service *phones.Service
}

// eachStore runs a test on both kinds of stores, with users 1 to 3.
func eachStore(t *testing.T, test func(*fixture)) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		testenv.NumberUsers(t, env, 3)
		c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
		low := models.Board{Name: "turned", Kind: models.KindDaily, TimeZone: "UTC", MaxScore: 1000, Shards: 1, Global: models.AudienceUsers, Order: models.OrderLow}
		steps, local, backend := low, low, low
		backend.Name, backend.Order, backend.Uploads = "backend", models.OrderHigh, models.AudienceService
		steps.Name, steps.Order, steps.TimeZone = "steps", models.OrderHigh, "Asia/Shanghai"
		local.Name, local.Order, local.TimeZone = "local", models.OrderHigh, models.LocalZone
		if err := c.Definitions.Define(t.Context(), []models.Board{steps, low, local, backend}); err != nil {
			t.Fatal(err)
		}
		f := &fixture{T: t, env: env, uploads: &uploads{}}
		f.service = phones.New(phones.Options{
			Store: phones.NewStore(env.Gorm), Boards: c.Definitions, Directory: testenv.Numbers{DB: env.Gorm}, Uploads: f.uploads, Clock: env.Clock.Now,
			ZoneOf: func(_ context.Context, user models.UserID, session int64) (string, error) {
				if user == "3" && session == 7 {
					return "Europe/Berlin", nil
				}
				return "", nil
			},
		})
		test(f)
	})
}

// add makes an address of a user and returns its id and key.
func (f *fixture) add(user models.UserID) (int64, string) {
	f.Helper()
	address, key, err := f.service.Add(f.Context(), user, "steps", phones.Choice{Name: "My phone"})
	if err != nil {
		f.Fatal(err)
	}
	return address.ID, key
}

// find returns the code of looking up a key; "" for none.
func (f *fixture) find(key string) models.Code {
	_, err := f.service.Find(f.Context(), key)
	return models.CodeOf(err)
}

// A user has up to ten addresses on daily boards that rank the highest score first.
func TestAdd(t *testing.T) {
	eachStore(t, func(f *fixture) {
		for _, tt := range []struct {
			board, name, zone string
			want              models.Code
		}{
			{"steps", "Annie's phone", "", ""},
			{"steps", "手机", "Europe/Berlin", ""},
			{"local", "phone", "Asia/Shanghai", ""},
			{"local", "phone", "", models.CodeValidationFailed},
			{"steps", "phone", "Local", models.CodeValidationFailed},
			{"steps", "phone", "Nowhere/Land", models.CodeValidationFailed},
			{"steps", "", "", models.CodeValidationFailed},
			{"steps", "\u202eenohp", "", models.CodeValidationFailed},
			{"steps", "a\u2028b", "", models.CodeValidationFailed},
			{"steps", "\u200b", "", models.CodeValidationFailed},
			{"steps", "a\nb", "", models.CodeValidationFailed},
			{"steps", "\xff", "", models.CodeValidationFailed},
			{"turned", "phone", "", models.CodeBoardKind},
			{"backend", "phone", "", models.CodeForbidden},
			{"none", "phone", "", models.CodeBoardNotFound},
		} {
			address, key, err := f.service.Add(f.Context(), "1", tt.board, phones.Choice{Name: tt.name, TimeZone: tt.zone})
			if models.CodeOf(err) != tt.want {
				f.Errorf("%+v: %v", tt, err)
			}
			if err == nil && (address.TimeZone == "" || len(key) != 35) {
				f.Errorf("%+v: %+v, %d characters", tt, address, len(key))
			}
		}
		for range phones.MaxAddresses - 3 {
			f.add("1")
		}
		if _, _, err := f.service.Add(f.Context(), "1", "steps", phones.Choice{Name: "one more"}); models.CodeOf(err) != models.CodeAddressLimit {
			f.Errorf("the eleventh: %v", err)
		}
		f.add("2")
	})
}

// An address without a time zone has that of the session by which it is made, or else that of the board.
func TestTimeZone(t *testing.T) {
	eachStore(t, func(f *fixture) {
		for _, tt := range []struct {
			board, zone string
			session     int64
			want        string // "" for an error
		}{
			{"steps", "", 0, "Asia/Shanghai"},
			{"steps", "", 7, "Europe/Berlin"},
			{"steps", "", 8, "Asia/Shanghai"},
			{"steps", "America/New_York", 7, "America/New_York"},
			{"local", "", 7, "Europe/Berlin"},
			{"local", "", 8, ""},
		} {
			choice := phones.Choice{Name: "phone", TimeZone: tt.zone, Session: tt.session}
			if address, _, err := f.service.Add(f.Context(), "3", tt.board, choice); address.TimeZone != tt.want || (err == nil) != (tt.want != "") {
				f.Errorf("%+v: %q, %v", tt, address.TimeZone, err)
			}
		}
	})
}

// An address is named, changed and revoked by its user alone, and found by its key until then.
func TestRevoke(t *testing.T) {
	eachStore(t, func(f *fixture) {
		id, key := f.add("1")
		_, other := f.add("1")
		for _, text := range []string{"", "sb_", "sb_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", key[1:], key + "a", strconv.Itoa(int(id))} {
			if code := f.find(text); code != models.CodeAddressUnknown {
				f.Errorf("%q: %q", text, code)
			}
		}
		changed, err := f.service.Change(f.Context(), "1", id, phones.Choice{Name: "Watch", TimeZone: "Europe/Berlin"})
		if err != nil || changed.Name != "Watch" || changed.TimeZone != "Europe/Berlin" {
			f.Errorf("changed: %+v, %v", changed, err)
		}
		if _, err := f.service.Change(f.Context(), "2", id, phones.Choice{Name: "Mine", TimeZone: "UTC"}); models.CodeOf(err) != models.CodeNotFound {
			f.Errorf("changed by another user: %v", err)
		}
		if err := f.service.Revoke(f.Context(), "2", id, false); models.CodeOf(err) != models.CodeNotFound {
			f.Errorf("revoked by another user: %v", err)
		}
		if err := f.service.Revoke(f.Context(), "1", id, true); err != nil || f.find(key) != "" {
			f.Errorf("a dry run: %v, %q", err, f.find(key))
		}
		if err := f.service.Revoke(f.Context(), "1", id, false); err != nil || f.find(key) != models.CodeAddressUnknown || f.find(other) != "" {
			f.Errorf("revoked: %v, %q and %q", err, f.find(key), f.find(other))
		}
		if err := f.service.Revoke(f.Context(), "1", id, false); models.CodeOf(err) != models.CodeNotFound {
			f.Errorf("revoked again: %v", err)
		}
		if list := testenv.Must(f.service.List(f.Context(), "1")); len(list) != 1 || list[0].ID == id {
			f.Errorf("listed: %+v", list)
		}
	})
}

// What was revoked, by its user or with its user, is revoked in an earlier state of the database, too.
func TestRevokedKeysAreNotRevived(t *testing.T) {
	eachStore(t, func(f *fixture) {
		id, ended := f.add("1")
		_, erased := f.add("2")
		_, kept := f.add("1")
		var rows []models.UploadAddress
		if err := f.env.Gorm.Order("id").Find(&rows).Error; err != nil {
			f.Fatal(err)
		}
		if err := f.service.Revoke(f.Context(), "1", id, false); err != nil {
			f.Fatal(err)
		}
		subject := phones.NewStore(f.env.Gorm).Subject(f.env.Clock.Now)
		for _, want := range []int64{1, 0} {
			if n, err := subject.Erase(f.Context(), 2); n != want || err != nil {
				f.Errorf("erased %d, %v", n, err)
			}
		}
		keys := revoked.New(f.env.Gorm, f.env.Clock.Now, []string{"upload_addresses"})
		hashes := testenv.Must(revoked.All(f.env.Gorm))
		if err := f.env.Gorm.Exec("DELETE FROM upload_addresses").Error; err != nil {
			f.Fatal(err)
		}
		if err := f.env.Gorm.Exec("DELETE FROM revoked_keys").Error; err != nil {
			f.Fatal(err)
		}
		for i := range rows {
			rows[i].ID = 0
		}
		if err := f.env.Gorm.Create(&rows).Error; err != nil {
			f.Fatal(err)
		}
		for range 2 {
			if err := keys.Again(f.Context(), hashes); err != nil {
				f.Fatal(err)
			}
			got := []models.Code{f.find(ended), f.find(erased), f.find(kept)}
			if !slices.Equal(got, []models.Code{models.CodeAddressUnknown, models.CodeAddressUnknown, ""}) {
				f.Errorf("found %q", got)
			}
		}
		if again := testenv.Must(revoked.All(f.env.Gorm)); len(again) != 2 {
			f.Errorf("%d keys are revoked", len(again))
		}
	})
}

// A call uploads for its user in the zone of the address, and is noted once a minute as long as the outcome is the same.
func TestTake(t *testing.T) {
	eachStore(t, func(f *fixture) {
		_, key := f.add("1")
		day := models.DateOf(testenv.Noon)
		f.uploads.refused = day - 9
		last := func() models.UploadAddress { return testenv.Must(f.service.List(f.Context(), "1"))[0] }
		take := func(body string) (phones.Taken, error) {
			return f.service.Take(f.Context(), testenv.Must(f.service.Find(f.Context(), key)), []byte(body), "")
		}
		list := func(days ...models.Date) string {
			text := ""
			for _, d := range days {
				text += `,{"type":"step","value":"7","date":"` + d.String() + `"}`
			}
			return "[" + text[1:] + "]"
		}
		taken, err := take(list(day-9, day-1, day))
		if err != nil || len(taken.Accepted) != 2 || len(taken.Rejected) != 1 || *taken.Rejected[0].Date != day-9 || taken.Form != phones.Shortcut {
			f.Errorf("%+v, %v", taken, err)
		}
		if len(f.uploads.taken) != 2 || f.uploads.taken[1] != (ingest.Upload{User: "1", Date: day, Score: 7}) {
			f.Errorf("uploaded %+v", f.uploads.taken)
		}
		if a := last(); a.LastUsedAt == nil || a.LastDay == nil || *a.LastDay != day || *a.LastScore != 7 || a.LastCode != "" {
			f.Errorf("noted %+v", a)
		}
		noted := last().LastUsedAt
		f.env.Clock.Advance(time.Second)
		if _, err := take(list(day)); err != nil || !last().LastUsedAt.Equal(*noted) {
			f.Errorf("again in the same minute: %v, %+v", err, last())
		}
		if _, err := take("what?"); models.CodeOf(err) != models.CodeNotRecognised {
			f.Errorf("%v", err)
		}
		if a := last(); a.LastCode != models.CodeNotRecognised || a.LastDay != nil || !a.LastUsedAt.After(*noted) {
			f.Errorf("noted %+v", a)
		}
		if _, err := take(list(day)); err != nil || last().LastCode != "" || *last().LastDay != day {
			f.Errorf("readable again: %v, %+v", err, last())
		}
		// One day that can't be read leaves the others as they are.
		taken, err = take(`[{"type":"step","value":"7.961","date":"2026-11-18"},` + list(day-9, day)[1:len(list(day-9, day))-1] + `,{"type":"step","value":"-3","date":"2026-11-17"},{"type":"step","value":"3","date":"x"}]`)
		var reasons []string
		for _, r := range taken.Rejected {
			reasons = append(reasons, fmt.Sprint(r.Date, " ", r.Err.Code))
		}
		if want := []string{"<nil> not_recognised", "2026-11-11 date_closed", "2026-11-17 score_out_of_range", "2026-11-18 not_recognised"}; err != nil || len(taken.Accepted) != 1 || !slices.Equal(reasons, want) {
			f.Errorf("%+v, %v, %q", taken, err, reasons)
		}
		f.env.Clock.Advance(time.Minute)
		if taken, err := take(list(day - 9)); err != nil || len(taken.Accepted) != 0 || last().LastCode != models.CodeDateClosed {
			f.Errorf("a closed day alone: %+v, %v, %+v", taken, err, last())
		}
		address := testenv.Must(f.service.Find(f.Context(), key))
		address.Board = "backend"
		if _, err := f.service.Take(f.Context(), address, []byte(list(day)), ""); models.CodeOf(err) != models.CodeForbidden {
			f.Errorf("to a board for backends: %v", err)
		}
		f.uploads.err = models.Errorf(models.CodeUnavailable, "away")
		if _, err := take(list(day)); models.CodeOf(err) != models.CodeUnavailable {
			f.Errorf("without stores: %v", err)
		}
	})
}
