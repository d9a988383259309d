package sessions_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/identities"
	"stepboard/services/people/sessions"
	"stepboard/services/people/teams"
	"stepboard/services/platform/outcomes"
	"stepboard/services/platform/revoked"
	"stepboard/services/servicetest"
)

const ttl = 400 * 24 * time.Hour

// fixture is the service over the stores of a test.
type fixture struct {
	*testing.T
	env     *testenv.Env
	users   *directory.Service
	groups  *groups.Service
	friends *friends.Service
	*sessions.Service
}

// noLimit limits no tries of invitations.
type noLimit struct{}

func (noLimit) TakeJoin(context.Context, models.UserID) error { return nil }

// each runs a test on each store. The settings say who may join.
func each(t *testing.T, join string, test func(f *fixture)) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := &fixture{T: t, env: env}
		f.users = directory.New(directory.Options{
			Store: directory.NewStore(env.Gorm), Copies: servicetest.Users(env), Memory: 1 << 20, Log: env.Log, IDKey: []byte("a key"),
		})
		t.Cleanup(f.users.Close)
		sets := servicetest.Sets(env)
		store := teams.NewStore(env.Gorm, func(string) (models.Date, error) { return models.DateOf(env.Clock.Now()), nil })
		f.friends = friends.New(friends.NewStore(env.Gorm, outcomes.NewOutbox(nil, env.Clock.Now)), sets, f.users,
			friends.Limits{Pending: 9, PerDay: 9, Joins: noLimit{}}, env.Log)
		f.groups = groups.New(groups.NewStore(env.Gorm, store), sets, nil, f.users, noLimit{}, env.Log)
		f.Service = f.serviceOf(join, 500)
		test(f)
	})
}

// serviceOf returns a service that permits so many new users in a day.
func (f *fixture) serviceOf(join string, perDay int64) *sessions.Service {
	return sessions.New(sessions.Options{
		Store: sessions.NewStore(f.env.Gorm), Directory: f.users, Groups: f.groups, Friends: f.friends, NetworkKey: []byte("a key"),
		Identities: identities.NewStore(f.env.Gorm, []byte("a key")), Returned: func(context.Context, []models.RowID) error { return nil },
		TTL: ttl, Join: join, NewPerDay: perDay, Clock: f.env.Clock.Now, Log: f.env.Log,
		Sign: func(user models.UserID, scope string, session int64, ttl time.Duration) (string, time.Time, error) {
			return fmt.Sprintf("%s %s %d", user, scope, session), f.env.Clock.Now().Add(ttl), nil
		},
	})
}

// open opens a session by a code, for somebody new with a name.
func (f *fixture) open(code, name string) sessions.Opened {
	f.Helper()
	opened, err := f.Open(f.Context(), sessions.Request{Code: code, Nickname: name})
	if err != nil {
		f.Fatalf("%s can't sign in by %s: %v", name, code, err)
	}
	return opened
}

// refused checks that a code opens no session.
func (f *fixture) refused(r sessions.Request, want models.Code) {
	f.Helper()
	if got, err := f.Open(f.Context(), r); models.CodeOf(err) != want {
		f.Errorf("%+v opens %+v, %v; want %s", r, got, err, want)
	}
}

// begin makes the first user.
func (f *fixture) begin() sessions.Opened {
	f.Helper()
	return f.open(testenv.Must(f.First(f.Context())), "Ann")
}

// count returns how many rows a query counts.
func (f *fixture) count(query string) (n int64) {
	f.Helper()
	if err := f.env.Gorm.Raw(query).Scan(&n).Error; err != nil {
		f.Fatal(err)
	}
	return n
}

// The first code makes the first user, who is an operator. It works once, and another one ends it.
func TestFirstCode(t *testing.T) {
	each(t, "", func(f *fixture) {
		before, code := testenv.Must(f.First(f.Context())), testenv.Must(f.First(f.Context()))
		f.refused(sessions.Request{Code: before, Nickname: "Eve"}, models.CodeNotFound)
		about, err := f.About(f.Context(), " "+strings.ToLower(code), "")
		if err != nil || about.Kind != sessions.FirstCode || !about.New || about.Nickname != "" {
			f.Errorf("it is for %+v, %v", about, err)
		}
		f.refused(sessions.Request{Code: code}, models.CodeValidationFailed)
		if joins, err := f.Joins(f.Context()); joins || err != nil {
			f.Errorf("others may join before somebody has begun: %v, %v", joins, err)
		}
		ann := f.open(code, "Ann")
		if !ann.Created || !ann.Operator || !ann.Token.User.SignsUp() || ann.Nickname != "Ann" {
			f.Errorf("opened %+v", ann)
		}
		f.refused(sessions.Request{Code: code, Nickname: "Eve"}, models.CodeNotFound)
		if again, err := f.First(f.Context()); again != "" || err != nil {
			f.Errorf("there is a first code %q beside people, %v", again, err)
		}
		if joins, err := f.Joins(f.Context()); !joins || err != nil {
			f.Errorf("nobody may join a service that has begun by a first code: %v, %v", joins, err)
		}
		token, err := f.Token(f.Context(), ann.Key, true)
		if err != nil || token.Text != fmt.Sprintf("%s admin %d", ann.Token.User, ann.ID) || !token.Operator {
			f.Errorf("the token is %+v, %v", token, err)
		}
	})
}

// Two who use a code for one use at a time: one gets in. If that is the first code, there is one user.
func TestCodesWorkOnce(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		for _, user := range []models.UserID{"", "somebody"} {
			code := ""
			if user == "" {
				code = testenv.Must(f.First(f.Context()))
			} else {
				ann := testenv.Must(f.Operators(f.Context()))[0].User
				code = testenv.Must(f.MakeCode(f.Context(), ann, time.Hour)).Text
			}
			var in sync.Mutex
			opened := 0
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					if _, err := f.Open(f.Context(), sessions.Request{Code: code, Nickname: "Ann"}); err == nil {
						in.Lock()
						opened++
						in.Unlock()
					} else if models.CodeOf(err) != models.CodeNotFound {
						f.Error(err)
					}
				})
			}
			both.Wait()
			if users := f.count(`SELECT count(*) FROM users`); opened != 1 || users != 1 {
				f.Errorf("%d got in, and there are %d users", opened, users)
			}
		}
	})
}

// Who opens an invitation is new, and in the group or a friend. It tells a name and nothing else.
func TestInvitations(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		ann := f.begin()
		family := testenv.Must(f.groups.Create(f.Context(), ann.Token.User, groups.Settings{Name: "Family"}))
		friendCode := testenv.Must(f.friends.Invite(f.Context(), ann.Token.User))
		about := testenv.Must(f.About(f.Context(), *family.InviteCode, ""))
		if about.Kind != sessions.GroupCode || about.Group != "Family" || about.Nickname != "" {
			f.Errorf("it is for %+v", about)
		}
		f.refused(sessions.Request{Code: *family.InviteCode, Nickname: " ANN "}, models.CodeNicknameTaken)
		bob := f.open(*family.InviteCode, "Bob")
		if again, err := f.Open(f.Context(), sessions.Request{Code: *family.InviteCode, Nickname: "ann", Anyway: true}); err != nil || again.Nickname != "ann" {
			f.Errorf("with a name that is taken, anyway: %+v, %v", again, err)
		}
		if group := testenv.Must(f.groups.Get(f.Context(), bob.Token.User, family.ID)); group.Members != 3 || bob.Operator || !bob.Created {
			f.Errorf("%+v is in %+v", bob, group)
		}
		if about := testenv.Must(f.About(f.Context(), friendCode, "")); about.Kind != sessions.FriendCode || about.Nickname != "Ann" {
			f.Errorf("it is for %+v", about)
		}
		cat := f.open(friendCode, "Cat")
		row := testenv.Must(f.users.FindOne(f.Context(), ann.Token.User))
		if ids := testenv.Must(f.friends.IDs(f.Context(), row)); !slices.Contains(ids, cat.Session.User) || len(ids) != 1 {
			f.Errorf("Ann has the friends %v", ids)
		}
		came := testenv.Must(f.CameBy(f.Context(), cat.Token.User))
		if !came.Known || came.By != ann.Token.User || came.Group != "" {
			f.Errorf("Cat came by %+v", came)
		}
		testenv.Must(f.groups.Renew(f.Context(), ann.Token.User, family.ID))
		f.refused(sessions.Request{Code: *family.InviteCode, Nickname: "Eve"}, models.CodeNotFound)
		branch := testenv.Must(f.Branch(f.Context(), ann.Token.User))
		if len(branch) != 4 || branch[0] != ann.Token.User {
			f.Errorf("Ann's branch is %v", branch)
		}
		if brought := testenv.Must(f.CameBy(f.Context(), ann.Token.User)); len(brought.Brought) != 3 || brought.By != "" {
			f.Errorf("Ann has brought %+v", brought)
		}
	})
}

// Where nobody may join, an invitation makes no user, and the code of somebody who exists opens a session.
func TestJoiningIsClosed(t *testing.T) {
	each(t, "nobody", func(f *fixture) {
		ann := f.begin()
		code := testenv.Must(f.friends.Invite(f.Context(), ann.Token.User))
		f.refused(sessions.Request{Code: code, Nickname: "Eve"}, models.CodeJoiningClosed)
		further := f.open(testenv.Must(f.MakeCode(f.Context(), ann.Token.User, time.Hour)).Text, "")
		if further.Created || further.Token.User != ann.Token.User || further.Nickname != "Ann" || !further.Operator {
			f.Errorf("opened %+v", further)
		}
		if n := f.count(`SELECT count(*) FROM users`); n != 1 {
			f.Errorf("there are %d users", n)
		}
	})
}

// Invitations make so many users in an hour and a day, of whom nobody is made in vain.
func TestBoundsOfNewUsers(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		ann := f.begin()
		family := testenv.Must(f.groups.Create(f.Context(), ann.Token.User, groups.Settings{Name: "Family"}))
		for i := range 60 {
			f.open(*family.InviteCode, fmt.Sprintf("Guest %d", i))
		}
		f.refused(sessions.Request{Code: *family.InviteCode, Nickname: "Eve"}, models.CodeRateLimited)
		if n := f.count(`SELECT count(*) FROM users`); n != 61 {
			f.Errorf("there are %d users", n)
		}
		f.env.Clock.Advance(time.Hour)
		f.open(*family.InviteCode, "Late")
		f.Service = f.serviceOf("invited", 3)
		f.env.Clock.Advance(24 * time.Hour)
		for i := range 3 {
			f.open(testenv.Must(f.friends.Invite(f.Context(), ann.Token.User)), fmt.Sprintf("Friend %d", i))
		}
		f.refused(sessions.Request{Code: *family.InviteCode, Nickname: "Eve"}, models.CodeRateLimited)
		if cards := testenv.Must(f.MakeCards(f.Context(), []string{"Pupil 1", "Pupil 2"}, family.ID, time.Hour)); len(cards) != 2 {
			f.Errorf("cards %v", cards)
		}
	})
}

// A network has a hundred wrong codes in an hour. Beyond ten thousand of all networks codes for one use are refused, and
// invitations are not.
func TestWrongCodes(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		ann := f.begin()
		code := testenv.Must(f.MakeCode(f.Context(), ann.Token.User, time.Hour)).Text
		for i := range 100 {
			f.refused(sessions.Request{Code: "AAAAA-AAAAA", Address: fmt.Sprintf("2001:db8::%x", i)}, models.CodeNotFound)
		}
		f.refused(sessions.Request{Code: code, Address: "2001:db8::1"}, models.CodeRateLimited)
		if _, err := f.About(f.Context(), code, "192.0.2.1"); err != nil {
			f.Errorf("another network: %v", err)
		}
		if err := f.env.Gorm.Exec(`UPDATE sign_in_counts SET n = 10000 WHERE what = 'wrong codes'`).Error; err != nil {
			f.Fatal(err)
		}
		_, err := f.About(f.Context(), code, "192.0.2.1")
		if models.CodeOf(err) != models.CodeRateLimited {
			f.Errorf("after ten thousand wrong codes: %v", err)
		}
		invitation := testenv.Must(f.friends.Invite(f.Context(), ann.Token.User))
		if _, err := f.About(f.Context(), invitation, "192.0.2.1"); err != nil {
			f.Errorf("an invitation after ten thousand wrong codes: %v", err)
		}
		f.env.Clock.Advance(time.Hour - f.env.Clock.Now().Sub(f.env.Clock.Now().Truncate(time.Hour)))
		if _, err := f.About(f.Context(), invitation, "2001:db8::1"); err != nil {
			f.Errorf("an hour later: %v", err)
		}
	})
}

// A code of somebody ends with its use, its time, and the next one. Cards let their users join a group.
func TestCodes(t *testing.T) {
	each(t, "nobody", func(f *fixture) {
		ann := f.begin()
		family := testenv.Must(f.groups.Create(f.Context(), ann.Token.User, groups.Settings{Name: "Class"}))
		first := testenv.Must(f.MakeCode(f.Context(), ann.Token.User, time.Hour))
		second := testenv.Must(f.MakeCode(f.Context(), ann.Token.User, time.Hour))
		f.refused(sessions.Request{Code: first.Text}, models.CodeNotFound)
		f.env.Clock.Advance(time.Hour)
		f.refused(sessions.Request{Code: second.Text}, models.CodeNotFound)
		for _, ttl := range []time.Duration{0, 721 * time.Hour} {
			if _, err := f.MakeCode(f.Context(), ann.Token.User, ttl); models.CodeOf(err) != models.CodeValidationFailed {
				f.Errorf("a code for %v: %v", ttl, err)
			}
		}
		cards := testenv.Must(f.MakeCards(f.Context(), []string{"Dan", "Eva"}, family.ID, sessions.CardTTL))
		about := testenv.Must(f.About(f.Context(), cards[1].Text, ""))
		if about.Kind != sessions.SignInCode || about.New || about.Nickname != "Eva" {
			f.Errorf("a card is for %+v", about)
		}
		eva := f.open(cards[1].Text, "")
		if group := testenv.Must(f.groups.Get(f.Context(), eva.Token.User, family.ID)); group.Members != 2 {
			f.Errorf("Eva is in %+v", group)
		}
		f.refused(sessions.Request{Code: cards[1].Text}, models.CodeNotFound)
		if _, err := f.MakeCards(f.Context(), []string{"Dan"}, "nowhere", time.Hour); models.CodeOf(err) != models.CodeNotFound {
			f.Errorf("cards of a group that is not there: %v", err)
		}
	})
}

// A code is not spent by somebody who does not get in: the group is full, or the name is missing or taken. An invitation
// makes nobody, and a card opens no session.
func TestCodesAreNotSpentInVain(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		first := testenv.Must(f.First(f.Context()))
		f.refused(sessions.Request{Code: first, Nickname: "\n"}, models.CodeValidationFailed)
		f.refused(sessions.Request{Code: first, Nickname: "Ann", Device: "\n"}, models.CodeValidationFailed)
		ann := f.open(first, "Ann")
		family := testenv.Must(f.groups.Create(f.Context(), ann.Token.User, groups.Settings{Name: "Family"}))
		card := testenv.Must(f.MakeCards(f.Context(), []string{"Dan"}, family.ID, time.Hour))[0]
		others := make([]models.RowID, models.MaxGroupMembers-1)
		for i := range others {
			others[i] = models.RowID(100 + i)
		}
		rows := testenv.Must(testenv.Numbers{DB: f.env.Gorm}.Ensure(f.Context(), testenv.IDs(others...)...))
		err := f.env.Gorm.Exec(`INSERT INTO group_members (group_id, user_id, joined_at) SELECT ?, user_id, ? FROM users WHERE user_id IN ?`,
			family.Row, f.env.Clock.Now(), rows).Error
		if err != nil {
			f.Fatal(err)
		}
		users := f.count(`SELECT count(*) FROM users`)
		for range 70 { // more than an invitation makes in an hour
			f.refused(sessions.Request{Code: *family.InviteCode, Nickname: "Ben"}, models.CodeGroupFull)
		}
		f.refused(sessions.Request{Code: card.Text}, models.CodeGroupFull)
		if now, open := f.count(`SELECT count(*) FROM users`), f.count(`SELECT count(*) FROM sessions`); now != users || open != 1 {
			f.Errorf("%d users became %d, with %d sessions", users, now, open)
		}
		for _, left := range rows[:2] {
			if err := f.env.Gorm.Exec(`DELETE FROM group_members WHERE user_id = ?`, left).Error; err != nil {
				f.Fatal(err)
			}
		}
		f.refused(sessions.Request{Code: *family.InviteCode, Nickname: "ann"}, models.CodeNicknameTaken)
		f.open(*family.InviteCode, "Ben")
		if dan := f.open(card.Text, ""); dan.Token.User != card.User {
			f.Errorf("the card of %s opens a session of %s", card.User, dan.Token.User)
		}
	})
}

// A session ends when it is ended, when it was not used for long, and when another one is opened in its place. A user has
// a number of them.
func TestSessions(t *testing.T) {
	each(t, "nobody", func(f *fixture) {
		ann := f.begin()
		user := ann.Token.User
		there := func(key string, want bool) {
			f.Helper()
			if _, err := f.Token(f.Context(), key, false); (err == nil) != want || !want && models.CodeOf(err) != models.CodeSessionEnded {
				f.Errorf("the session is there: %v", err)
			}
		}
		further := func(before string) sessions.Opened {
			f.Helper()
			r := sessions.Request{Code: testenv.Must(f.MakeCode(f.Context(), user, time.Hour)).Text, Before: before, Device: "phone", TimeZone: "Europe/Berlin"}
			return testenv.Must(f.Open(f.Context(), r))
		}
		there("ss_"+strings.Repeat("a", 32), false)
		there("nonsense", false)
		phone := further("")
		instead := further(phone.Key)
		there(phone.Key, false)
		there(instead.Key, true)
		if err := f.EndOne(f.Context(), user, instead.ID); err != nil {
			f.Fatal(err)
		}
		there(instead.Key, false)
		if err := f.EndOne(f.Context(), "somebody else", ann.ID); models.CodeOf(err) != models.CodeNotFound {
			f.Errorf("somebody else ends it: %v", err)
		}
		f.env.Clock.Advance(ttl - time.Minute)
		there(ann.Key, true)
		f.env.Clock.Advance(ttl + time.Second)
		there(ann.Key, false)
		if n, err := f.Tidy(f.Context()); n != 1 || err != nil {
			f.Errorf("%d were ended, %v", n, err)
		}
		for range sessions.MaxSessions + 1 {
			phone = further("")
		}
		list := testenv.Must(f.List(f.Context(), user))
		if len(list) != sessions.MaxSessions || list[0].ID != phone.ID || list[0].Device != "phone" {
			f.Errorf("%d sessions, the first is %+v", len(list), list[0])
		}
		for who, want := range map[models.UserID]string{user: "Europe/Berlin", "somebody else": ""} {
			if zone, err := f.TimeZone(f.Context(), who, phone.ID); zone != want || err != nil {
				f.Errorf("for %s it is in %q, %v", who, zone, err)
			}
		}
		if err := f.End(f.Context(), phone.Key); err != nil {
			f.Fatal(err)
		}
		there(phone.Key, false)
		if zone, err := f.TimeZone(f.Context(), user, phone.ID); zone != "" || err != nil {
			f.Errorf("when it has ended it is in %q, %v", zone, err)
		}
	})
}

// The last operator stays. Tokens of a former one are refused at once, and of two who remove each other one stays.
func TestOperators(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		ann := f.begin()
		bob := f.open(testenv.Must(f.friends.Invite(f.Context(), ann.Token.User)), "Bob")
		if _, err := f.Token(f.Context(), bob.Key, true); models.CodeOf(err) != models.CodeForbidden {
			f.Errorf("Bob gets a token of scope admin: %v", err)
		}
		if err := f.RemoveOperator(f.Context(), ann.Token.User, false); models.CodeOf(err) != models.CodeLastOperator {
			f.Errorf("the last operator is removed: %v", err)
		}
		if err := f.Leaves(f.Context(), ann.Token.User); models.CodeOf(err) != models.CodeLastOperator {
			f.Errorf("the last operator leaves: %v", err)
		}
		if err := f.AddOperator(f.Context(), bob.Token.User, "Ann", false); err != nil {
			f.Fatal(err)
		}
		if err := f.Operates(f.Context(), bob.ID, bob.Token.User); err != nil {
			f.Errorf("Bob operates: %v", err)
		}
		if err := f.Leaves(f.Context(), ann.Token.User); err != nil {
			f.Errorf("one of two operators leaves: %v", err)
		}
		var both sync.WaitGroup
		for _, user := range []models.UserID{ann.Token.User, bob.Token.User} {
			both.Go(func() { _ = f.RemoveOperator(f.Context(), user, false) })
		}
		both.Wait()
		left := testenv.Must(f.Operators(f.Context()))
		if len(left) != 1 {
			f.Fatalf("operators %+v", left)
		}
		for _, o := range []sessions.Opened{ann, bob} {
			if err := f.Operates(f.Context(), o.ID, o.Token.User); (err == nil) != (left[0].User == o.Token.User) {
				f.Errorf("%s operates: %v, of %+v", o.Nickname, err, left)
			}
		}
	})
}

// Of two operators of whom one is being erased, the other is the last.
func TestErasedOperatorsAreNone(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		ann := f.begin()
		code := testenv.Must(f.friends.Invite(f.Context(), ann.Token.User))
		bob := f.open(code, "Bob")
		f.open(code, "Cat")
		if err := f.AddOperator(f.Context(), bob.Token.User, "Ann", false); err != nil {
			f.Fatal(err)
		}
		if err := f.env.Gorm.Exec(`DELETE FROM users WHERE user_id = ?`, bob.Session.User).Error; err != nil { // as an erasure begins
			f.Fatal(err)
		}
		if err := f.Leaves(f.Context(), ann.Token.User); models.CodeOf(err) != models.CodeLastOperator {
			f.Errorf("the last operator leaves: %v", err)
		}
		if err := f.RemoveOperator(f.Context(), ann.Token.User, false); models.CodeOf(err) != models.CodeLastOperator {
			f.Errorf("the last operator is removed: %v", err)
		}
	})
}

// An erasure ends everything of a user. A database that is restored to an earlier state revives no session, no code, no
// operator and no invitation.
func TestNothingIsRevived(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		ann := f.begin()
		family := testenv.Must(f.groups.Create(f.Context(), ann.Token.User, groups.Settings{Name: "Family"}))
		friendCode := testenv.Must(f.friends.Invite(f.Context(), ann.Token.User))
		bob := f.open(*family.InviteCode, "Bob")
		cat := f.open(*family.InviteCode, "Cat")
		used := testenv.Must(f.MakeCode(f.Context(), ann.Token.User, time.Hour))
		if err := f.AddOperator(f.Context(), bob.Token.User, "Ann", false); err != nil {
			f.Fatal(err)
		}
		tables := []string{"sessions", "sign_in_codes", "operators"}
		saved := make(map[string][]map[string]any)
		for _, table := range tables {
			var rows []map[string]any
			if err := f.env.Gorm.Table(table).Find(&rows).Error; err != nil {
				f.Fatal(err)
			}
			for _, row := range rows {
				delete(row, "id") // Postgres gives others
			}
			saved[table] = rows
		}
		second := f.open(used.Text, "")
		if err := f.RemoveOperator(f.Context(), bob.Token.User, false); err != nil {
			f.Fatal(err)
		}
		testenv.Must(f.groups.Renew(f.Context(), ann.Token.User, family.ID))
		testenv.Must(f.friends.RenewInvite(f.Context(), ann.Token.User))
		if err := f.End(f.Context(), bob.Key); err != nil {
			f.Fatal(err)
		}
		subject := sessions.NewStore(f.env.Gorm).Subject(f.env.Clock.Now)
		if n, err := subject.Erase(f.Context(), cat.Session.User); n != 2 || err != nil {
			f.Errorf("erased %d of Cat, %v", n, err)
		}
		if n, err := subject.Erase(f.Context(), cat.Session.User); n != 0 || err != nil {
			f.Errorf("erased %d of Cat again, %v", n, err)
		}
		keys := revoked.New(f.env.Gorm, f.env.Clock.Now, sessions.Tables(), f.friends.RenewAgain, f.groups.RenewAgain)
		hashes := testenv.Must(revoked.All(f.env.Gorm))

		err := f.env.Gorm.Transaction(func(tx *gorm.DB) error { // back to the earlier state
			for _, table := range append(tables, "revoked_keys") {
				if err := tx.Exec("DELETE FROM " + table).Error; err != nil {
					return err
				}
				if rows := saved[table]; len(rows) > 0 {
					if err := tx.Table(table).Create(rows).Error; err != nil {
						return err
					}
				}
			}
			if err := tx.Exec(`UPDATE groups SET invite_code = ?`, *family.InviteCode).Error; err != nil {
				return err
			}
			return tx.Exec(`UPDATE users SET invite_code = ? WHERE user_id = ?`, friendCode, ann.Session.User).Error
		})
		if err != nil {
			f.Fatal(err)
		}
		for range 2 {
			if err := keys.Again(f.Context(), hashes); err != nil {
				f.Fatal(err)
			}
			for _, o := range []sessions.Opened{bob, cat, second} {
				if _, err := f.Token(f.Context(), o.Key, false); models.CodeOf(err) != models.CodeSessionEnded {
					f.Errorf("the session of %s is back: %v", o.Nickname, err)
				}
			}
			if _, err := f.Token(f.Context(), ann.Key, true); err != nil {
				f.Errorf("Ann's session is gone: %v", err)
			}
			for _, code := range []string{used.Text, *family.InviteCode, friendCode} {
				if _, err := f.About(f.Context(), code, ""); models.CodeOf(err) != models.CodeNotFound {
					f.Errorf("the code %s is back: %v", code, err)
				}
			}
			if left := testenv.Must(f.Operators(f.Context())); len(left) != 1 || left[0].User != ann.Token.User {
				f.Errorf("operators are %+v", left)
			}
		}
	})
}

// Nobody makes anew who has signed up and was erased.
func TestSignedUpIDsAreNotMadeAnew(t *testing.T) {
	each(t, "invited", func(f *fixture) {
		gone := models.NewUserID()
		for what, make := range map[string]func() error{
			"one":   func() error { _, err := f.users.Ensure(f.Context(), gone); return err },
			"named": func() error { _, err := f.users.Put(f.Context(), gone, models.Profile{Nickname: "Eve"}); return err },
		} {
			if err := make(); models.CodeOf(err) != models.CodeUserNotFound {
				f.Errorf("%s: %v", what, err)
			}
		}
		if rows, err := f.users.EnsureMany(f.Context(), []models.UserID{"1001", gone}); err != nil || rows[0] == 0 || rows[1] != 0 {
			f.Errorf("of many: %v, %v", rows, err)
		}
		if err := f.users.Rename(f.Context(), "1001", gone); models.CodeOf(err) != models.CodeValidationFailed {
			f.Errorf("somebody gets such an id: %v", err)
		}
		if rows, err := f.users.Ensure(f.Context(), "u_short", "1001"); err != nil || slices.Contains(rows, 0) {
			f.Errorf("others are made: %v, %v", rows, err)
		}
	})
}

// Who comes by an identity is one user, on whatever devices and at whatever time, and a session lasts as long as the
// provider's settings say. Its tokens don't outlast it.
func TestElsewhere(t *testing.T) {
	each(t, "nobody", func(f *fixture) {
		who := sessions.Elsewhere{Issuer: "https://login.example", Subject: "1", Nickname: "Ann", Lasts: time.Hour}
		opened := make([]sessions.Opened, 8)
		var all sync.WaitGroup
		for i := range opened {
			all.Go(func() {
				var err error
				if opened[i], err = f.OpenElsewhere(f.Context(), who); err != nil {
					f.Error(err)
				}
			})
		}
		all.Wait()
		created := 0
		for _, o := range opened {
			if user := o.Token.User; user != opened[0].Token.User || !user.SignsUp() || o.Operator {
				f.Errorf("opened %+v", o.Token)
			}
			if o.Created {
				created++
			}
		}
		if users := f.count(`SELECT count(*) FROM users`); users != 1 || created != 1 {
			f.Errorf("there are %d users, of whom %d were created", users, created)
		}
		others := who
		others.Issuer, others.Nickname = "https://other.example", ""
		if ben, err := f.OpenElsewhere(f.Context(), others); err != nil || ben.Token.User == opened[0].Token.User {
			f.Errorf("the subject of another issuer is %+v, %v", ben, err)
		}
		f.env.Clock.Advance(50 * time.Minute)
		token, err := f.Token(f.Context(), opened[0].Key, false)
		if left := token.Expires.Sub(f.env.Clock.Now()); err != nil || left != 10*time.Minute {
			f.Errorf("ten minutes before the end a token lasts %v, %v", left, err)
		}
		f.env.Clock.Advance(10 * time.Minute)
		if token, err := f.Token(f.Context(), opened[0].Key, false); models.CodeOf(err) != models.CodeSessionEnded {
			f.Errorf("after the end there is the token %+v, %v", token, err)
		}
		if list, err := f.List(f.Context(), opened[0].Token.User); len(list) > 0 || err != nil {
			f.Errorf("after the end there are %+v, %v", list, err)
		}
		if ended, err := f.Tidy(f.Context()); ended != 9 || err != nil {
			f.Errorf("%d sessions were ended, %v", ended, err)
		}
	})
}
