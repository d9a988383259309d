package notices_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
	"stepboard/services/rankings/notices"
)

// newService returns the service over a test's database, in which users 1 to 9 exist.
func newService(t testing.TB, env *testenv.Env) (*notices.Service, *notices.Store) {
	t.Helper()
	testenv.NumberUsers(t, env, 9)
	store := notices.NewStore(env.Gorm)
	key := testenv.Must(store.Key(t.Context()))
	return notices.New(notices.Options{Store: store, Directory: testenv.Numbers{DB: env.Gorm}, Key: key, Clock: env.Clock.Now}), store
}

// browser returns the choice of a browser with an address at a push service.
func browser(address string, tell ...models.Tell) notices.Choice {
	key := testenv.Must(ecdh.P256().GenerateKey(rand.Reader)).PublicKey().Bytes()
	return notices.Choice{
		Endpoint: "https://push.example/" + address, P256DH: base64.RawURLEncoding.EncodeToString(key),
		Auth: base64.URLEncoding.EncodeToString(make([]byte, 16)), Tell: tell,
	}
}

// shown writes the subscriptions of a user as "address tell", without the push service.
func shown(t testing.TB, s *notices.Service, user models.UserID) (list []string) {
	t.Helper()
	for _, p := range testenv.Must(s.List(t.Context(), user)) {
		address := "-"
		if p.Endpoint != nil {
			address = strings.TrimPrefix(*p.Endpoint, "https://push.example/")
		}
		list = append(list, fmt.Sprint(address, " ", p.Told.List()))
	}
	return list
}

func want(t testing.TB, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A user has five browsers and the app's own subscription. The same endpoint replaces, whoever's it
// was, and each can be ended.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s, store := newService(t, env)
		ctx := t.Context()
		put := func(user models.UserID, c notices.Choice) models.PushSubscription {
			t.Helper()
			return testenv.Must(s.Put(ctx, user, c))
		}
		put("1", notices.Choice{Tell: []models.Tell{models.TellPassed}})
		first := put("1", browser("a", models.TellLikes))
		env.Clock.Advance(1)
		again := browser("a", models.TellDigest, models.TellPassed)
		again.TimeZone = "Europe/Berlin"
		if p := put("1", again); p.ID != first.ID || !p.CreatedAt.Equal(first.CreatedAt) {
			t.Errorf("the same user's endpoint is %+v, and was %+v", p, first)
		}
		put("1", notices.Choice{Tell: []models.Tell{models.TellPassed}})
		want(t, "the same again", shown(t, s, "1"), []string{"- [passed]", "a [passed digest]"})

		taken := put("2", browser("a", models.TellRequests))
		if taken.ID <= first.ID {
			t.Errorf("the endpoint of another user has the id %d, and had %d", taken.ID, first.ID)
		}
		if _, err := store.Subscription(ctx, first.ID); !errors.Is(err, outcomes.ErrEnded) {
			t.Errorf("the former subscription: %v", err)
		}
		want(t, "who has lost it", shown(t, s, "1"), []string{"- [passed]"})
		want(t, "who has taken it", shown(t, s, "2"), []string{"a [requests]"})

		for i := range notices.MaxSubscriptions + 1 {
			put("1", browser(fmt.Sprint(i), models.TellLikes))
		}
		want(t, "a sixth browser", shown(t, s, "1"), []string{"- [passed]", "1 [likes]", "2 [likes]", "3 [likes]", "4 [likes]", "5 [likes]"})

		for _, address := range []string{"https://push.example/3", "https://push.example/a", "https://push.example/none"} {
			if err := s.End(ctx, "1", &address); err != nil {
				t.Fatal(err)
			}
		}
		want(t, "one ended", shown(t, s, "1"), []string{"- [passed]", "1 [likes]", "2 [likes]", "4 [likes]", "5 [likes]"})
		want(t, "another user's", shown(t, s, "2"), []string{"a [requests]"})
		for _, user := range []models.UserID{"1", "2", "nobody"} {
			if err := s.End(ctx, user, nil); err != nil {
				t.Fatal(err)
			}
		}
		want(t, "the app's own ended", shown(t, s, "1"), []string{"1 [likes]", "2 [likes]", "4 [likes]", "5 [likes]"})
		for _, user := range []models.UserID{"1", "1", "nobody"} {
			if err := s.EndAll(ctx, user); err != nil {
				t.Fatal(err)
			}
		}
		want(t, "all ended", shown(t, s, "1"), nil)
		want(t, "nobody", shown(t, s, "nobody"), nil)

		if n := testenv.Must(store.Erase(ctx, 2)); n != 1 {
			t.Errorf("%d were erased", n)
		}
		want(t, "erased", shown(t, s, "2"), nil)
		if n := testenv.Must(store.Erase(ctx, 2)); n != 0 {
			t.Errorf("%d were erased again", n)
		}
	})
}

// Users who put subscriptions at the same time, and take each other's endpoints, keep to the limit,
// and an endpoint has one user.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s, _ := newService(t, env)
		var running sync.WaitGroup
		for i := range 40 {
			running.Go(func() {
				_, err := s.Put(t.Context(), testenv.ID(models.RowID(i%4/2+1)), browser(fmt.Sprint(i%10), models.TellLikes))
				if err != nil && models.CodeOf(err) != models.CodeUnavailable { // two that wait for each other
					t.Error(err)
				}
			})
		}
		testenv.Wait(t, "all are stored", &running)
		seen := make(map[string]bool)
		for _, user := range []models.UserID{"1", "2"} {
			list := shown(t, s, user)
			if len(list) > notices.MaxSubscriptions {
				t.Errorf("%s has %v", user, list)
			}
			for _, p := range list {
				if seen[p] {
					t.Errorf("%s is both users'", p)
				}
				seen[p] = true
			}
		}
		if len(seen) == 0 {
			t.Error("nobody has any")
		}
	})
}

// Those who want a kind of news are listed once each, by row, with the zone that they gave last, and since when.
func TestWanting(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s, store := newService(t, env)
		for user := models.RowID(1); user <= 6; user++ {
			tell := models.TellPassed
			if user == 4 {
				tell = models.TellLikes
			}
			for i, zone := range []string{"Europe/Berlin", "Asia/Tokyo", ""} {
				c := browser(fmt.Sprint(user, "-", i), tell)
				if user%2 == 0 {
					c.TimeZone = zone
				}
				testenv.Must(s.Put(t.Context(), testenv.ID(user), c))
				env.Clock.Advance(time.Minute)
			}
		}
		testenv.Must(s.Put(t.Context(), "7", notices.Choice{Tell: []models.Tell{models.TellPassed}, TimeZone: "UTC"}))
		var got []string
		for after := models.RowID(0); ; {
			page := testenv.Must(store.Wanting(t.Context(), models.TellPassed, after, 2))
			if len(page) == 0 {
				break
			}
			for _, w := range page {
				got, after = append(got, fmt.Sprint(w.User, " ", w.TimeZone, " ", w.Since.Sub(testenv.Noon))), w.User
			}
		}
		want(t, "passed", got, []string{"1  0s", "2 Asia/Tokyo 3m0s", "3  6m0s", "5  12m0s", "6 Asia/Tokyo 15m0s", "7 UTC 18m0s"})
		if list := testenv.Must(store.Wanting(t.Context(), models.TellDigest, 0, 9)); len(list) != 0 {
			t.Errorf("digest: %v", list)
		}
	})
}

// The key is made once.
func TestKey(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		store := notices.NewStore(env.Gorm)
		var running sync.WaitGroup
		keys := make([]string, 8)
		for i := range keys {
			running.Go(func() {
				key, err := store.Key(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				keys[i] = notices.New(notices.Options{Key: key}).PublicKey()
			})
		}
		testenv.Wait(t, "all have the key", &running)
		for _, key := range keys {
			if raw, err := base64.RawURLEncoding.DecodeString(key); err != nil || len(raw) != 65 || key != keys[0] {
				t.Errorf("keys %q and %q, %v", keys[0], key, err)
			}
		}
	})
}

// What can't be sent to, or is not to be chosen, is refused, and says where.
func TestRefused(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s, store := newService(t, env)
	change := func(fn func(*notices.Choice)) notices.Choice {
		c := browser("a", models.TellLikes)
		fn(&c)
		return c
	}
	at := func(endpoint string) notices.Choice { return change(func(c *notices.Choice) { c.Endpoint = endpoint }) }
	for name, tt := range map[string]struct {
		choice notices.Choice
		at     string
	}{
		"no TLS":               {at("http://push.example/a"), "body.endpoint"},
		"another scheme":       {at("ftp://push.example/a"), "body.endpoint"},
		"no address":           {at("push.example"), "body.endpoint"},
		"no host":              {at("https:///a"), "body.endpoint"},
		"a user":               {at("https://ann@push.example/a"), "body.endpoint"},
		"another port":         {at("https://push.example:8443/a"), "body.endpoint"},
		"this machine":         {at("https://127.0.0.1/a"), "body.endpoint"},
		"this machine, in six": {at("https://[::ffff:127.0.0.1]/a"), "body.endpoint"},
		"a private network":    {at("https://10.1.2.3/a"), "body.endpoint"},
		"a cloud's metadata":   {at("https://169.254.169.254/a"), "body.endpoint"},
		"a private name":       {at("https://localhost/a"), "body.endpoint"},
		"a name of a network":  {at("https://redis/a"), "body.endpoint"},
		"no point":             {change(func(c *notices.Choice) { c.P256DH = "BA" }), "body.keys.p256dh"},
		"no key":               {change(func(c *notices.Choice) { c.P256DH = "" }), "body.keys.p256dh"},
		"a short secret":       {change(func(c *notices.Choice) { c.Auth = "aaaa" }), "body.keys.auth"},
		"nothing to tell":      {change(func(c *notices.Choice) { c.Tell = nil }), "body.tell"},
		"no zone":              {change(func(c *notices.Choice) { c.TimeZone = "Mars/Olympus" }), "body.time_zone"},
		"a file":               {change(func(c *notices.Choice) { c.TimeZone = "../../etc/passwd" }), "body.time_zone"},
		"the machine's zone":   {change(func(c *notices.Choice) { c.TimeZone = "Local" }), "body.time_zone"},
		"keys alone":           {at(""), "body.endpoint"},
		"likes by the app":     {notices.Choice{Tell: []models.Tell{models.TellPassed, models.TellLikes}}, "body.tell"},
		"nothing by the app":   {notices.Choice{}, "body.tell"},
	} {
		_, err := s.Put(t.Context(), "1", tt.choice)
		if models.CodeOf(err) != models.CodeValidationFailed || !strings.HasPrefix(err.Error(), tt.at+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	silent := notices.New(notices.Options{Store: store, Directory: testenv.Numbers{DB: env.Gorm}, Clock: env.Clock.Now})
	if _, err := silent.Put(t.Context(), "1", browser("a", models.TellLikes)); models.CodeOf(err) != models.CodeValidationFailed || silent.PublicKey() != "" {
		t.Errorf("without Web Push: %v, %q", err, silent.PublicKey())
	}
	if _, err := silent.Put(t.Context(), "1", notices.Choice{Tell: []models.Tell{models.TellPassed}}); err != nil {
		t.Errorf("the app's own without Web Push: %v", err)
	}
	want(t, "stored", shown(t, s, "1"), []string{"- [passed]"})
}
