package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/config"
	"stepboard/handlers"
	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/holds"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/phones"
	"stepboard/services/boards/results"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/erasure"
	"stepboard/services/operations/importer"
	"stepboard/services/operations/reviews"
	"stepboard/services/operations/status"
	"stepboard/services/operations/support"
	"stepboard/services/operations/wechat"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/people/identities"
	"stepboard/services/people/privacy"
	"stepboard/services/people/sessions"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/outcomes"
	"stepboard/services/platform/revoked"
	"stepboard/services/rankings/competitions"
	"stepboard/services/rankings/digests"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/notices"
	"stepboard/services/rankings/passed"
)

// operations holds the services of operators, and those that see all others.
type operations struct {
	Audit      *audit.Service
	Reviews    *reviews.Service
	Erasure    *erasure.Service
	Importer   *importer.Service
	WeChat     *wechat.Service
	Deliveries *outcomes.Store

	deliverer *outcomes.Deliverer
	deliver   bool // whether this process delivers webhooks
}

// buildOperations constructs the services of operations. idKey is the key of directory.IDHash.
func (a *App) buildOperations(o Options, erasures *erasure.Store, idKey []byte) (err error) {
	a.Audit = audit.New(audit.NewStore(o.Stores.Gorm), a.Directory, o.Clock, o.Log)
	a.Reviews = reviews.New(reviews.NewStore(o.Stores.Jobs.Gorm), a.Catalog, a.Entries, a.Directory, o.Clock)
	a.Importer = &importer.Service{
		Friends: a.Friends, Directory: a.Directory, Buckets: a.Catalog.Buckets, Entries: a.Entries, Archive: a.Archive,
		RaiseHot: a.writer.Raise, RaiseCold: a.Entries.Raise, Analyze: o.Stores.Analyze, OneWriter: a.backing.oneWriter(), Clock: o.Clock, Log: o.Log,
	}
	if err := a.buildWebhooks(o); err != nil {
		return err
	}
	a.buildErasure(o, erasures, idKey)
	a.registerJobs(o, newReviewsCollector(a.Reviews), newErasureCollector(a.Erasure))
	return a.buildWeChat(o, idKey)
}

// buildWebhooks constructs the services that deliver outcomes, by webhooks and Web Push. Processes with
// the role of jobs deliver, if there is a target.
func (a *App) buildWebhooks(o Options) (err error) {
	choices := privacy.NewStore(o.Stores.Jobs.Gorm)
	a.Deliveries = outcomes.NewStore(o.Stores.Jobs.Gorm, append(friends.Topics(a.Directory, friends.NewStore(o.Stores.Jobs.Gorm, nil)),
		likes.Topic(a.Directory, choices), results.Topic(a.Directory), digests.Topic(a.Directory, choices), passed.Topic(a.render), competitions.Topic(a.Directory))...)
	var push *outcomes.Push
	if pushes(o.Config) {
		push = &outcomes.Push{
			Subject: o.Config.Push.Subject, Key: a.pushKey, PrivateNetwork: o.Config.Push.PrivateNetwork,
			Subscriptions: notices.NewStore(o.Stores.Jobs.Gorm),
		}
	}
	targets := webhookTargets(o.Config)
	a.deliver = o.Roles.Jobs && (len(targets) > 0 || push != nil)
	a.deliverer, err = outcomes.NewDeliverer(a.Deliveries, targets, push, o.Clock, o.Log, a.registry)
	return err
}

// tellChanged writes to the audit log that a day of a final competition has changed since.
func (a *App) tellChanged(ctx context.Context, c models.Competition) error {
	finish, err := a.Audit.Begin(ctx, audit.Entry{AuditEntry: models.AuditEntry{
		Actor: "job competitions", Action: "competition changed", Board: c.Board, Target: string(c.ID),
		Reason: "a day was archived again since the competition became final",
	}})
	if err == nil {
		finish(nil)
	}
	return err
}

// webhookTargets returns the targets of the settings.
func webhookTargets(c config.Config) []outcomes.Target {
	targets := make([]outcomes.Target, len(c.Webhooks))
	for i, w := range c.Webhooks {
		targets[i] = outcomes.Target{URL: w.URL, Secrets: w.Secrets, PrivateNetwork: w.PrivateNetwork}
		for _, event := range w.Events {
			targets[i].Types = append(targets[i].Types, models.OutcomeType(event))
		}
	}
	return targets
}

// pushes reports whether the settings have Web Push.
func pushes(c config.Config) bool { return c.Push.Subject != "" }

// newOutbox returns the outbox of the settings.
func newOutbox(o Options) *outcomes.Outbox {
	outbox := outcomes.NewOutbox(webhookTargets(o.Config), o.Clock)
	if pushes(o.Config) {
		return outbox.WithPush()
	}
	return outbox
}

// buildWeChat constructs the service of mini programs. idKey is the key of directory.IDHash.
func (a *App) buildWeChat(o Options, idKey []byte) (err error) {
	settings, tokens := o.Config.WeChat, o.Config.Auth
	a.WeChat, err = wechat.New(wechat.Options{
		Apps: weChatApps(settings), URL: settings.APIURL, Store: &wechat.Store{Store: identities.NewStore(o.Stores.Gorm, idKey)}, Directory: a.Directory, Uploads: a.Ingest,
		Returner: a.Erasure, Secret: []byte(tokens.HS256Secret), Clock: o.Machine, Log: o.Log,
		Sign: func(user models.UserID, now time.Time) (string, time.Time, error) {
			token, err := auth.SignToken([]byte(tokens.HS256Secret), user, "", tokens.Issuer, tokens.Audience, now, settings.TokenTTL)
			return token, now.Add(settings.TokenTTL), err
		},
	})
	if err == nil {
		a.registry.MustRegister(newWeChatCollector(a.WeChat))
	}
	return err
}

// weChatApps returns the mini programs of the settings.
func weChatApps(settings config.WeChat) (apps []wechat.App) {
	for _, app := range settings.Apps {
		apps = append(apps, wechat.App{ID: app.AppID, Secret: app.Secret, Board: app.Board})
	}
	return apps
}

// CheckWeChat returns an error unless WeChat knows the mini programs of the settings. One call for each.
func CheckWeChat(ctx context.Context, settings config.WeChat) error {
	for i, app := range weChatApps(settings) {
		if err := wechat.CheckApp(ctx, settings.APIURL, app); err != nil {
			return fmt.Errorf("wechat.apps[%d]: %w", i, err)
		}
	}
	return nil
}

// newWeChatCollector reports logins of mini programs and documents of steps.
func newWeChatCollector(w *wechat.Service) prometheus.Collector {
	s := w.Stats()
	const logins = "Logins by WeChat, by what it has answered: refused is a wrong appid or secret of the settings."
	const documents = "Documents of steps from WeChat, by whether they could be decrypted and read."
	return newNumbers("stepboard_wechat_", append(
		counters("logins_total", logins, "result", map[string]*atomic.Int64{
			"ok": &s.LoggedIn, "bad_code": &s.BadCode, "blocked": &s.Blocked, "limited": &s.Limited, "refused": &s.Refused, "unavailable": &s.Unavailable,
		}),
		counters("documents_total", documents, "result", map[string]*atomic.Int64{"read": &s.Read, "unread": &s.Unread})...,
	)...)
}

// buildErasure constructs the service that erases users. idKey is the key of directory.IDHash.
func (a *App) buildErasure(o Options, store *erasure.Store, idKey []byte) {
	a.Erasure = erasure.New(erasure.Options{
		Store: store, Directory: a.Directory, Entries: a.Entries, Sets: a.Sets,
		Revoked: revoked.New(o.Stores.Jobs.Gorm, o.Clock, append(sessions.Tables(), "upload_addresses"), a.Friends.RenewAgain, a.Groups.RenewAgain),
		// Whatever stores something new about users adds a subject, or its tables and keys to one;
		// TestEveryTable and TestEveryKey fail until then. Corrections come after the archive, where they
		// apply, and totals after the archive, which gives those of archived events the row ids of the
		// archived scores.
		Subjects: []models.Subject{
			a.Directory.Subject(), erasure.Scores(store, a.Entries, o.Clock), a.Friends.Subject(), a.Privacy.Subject(), a.Groups.Subject(),
			likes.NewStore(o.Stores.Jobs.Gorm, nil).Subject(), a.Archive.Subject(), a.increments.Subject(), a.Corrections.Subject(),
			reviews.NewStore(o.Stores.Jobs.Gorm).Subject(), holds.NewStore(o.Stores.Gorm, o.Stores.Jobs.Gorm).Subject(), audit.NewStore(o.Stores.Jobs.Gorm).Subject(),
			ingest.NewDeadLetterStore(o.Stores.Jobs.Gorm).Subject(), a.Deliveries.Subject(), notices.NewStore(o.Stores.Jobs.Gorm).Subject(),
			phones.NewStore(o.Stores.Jobs.Gorm).Subject(o.Clock), passed.Subject(a.states), competitions.NewStore(o.Stores.Jobs.Gorm, nil).Subject(),
			identities.NewStore(o.Stores.Jobs.Gorm, idKey).Subject(), sessions.NewStore(o.Stores.Jobs.Gorm).Subject(o.Clock),
		},
		Forget: a.states.Erase, Pending: a.decisions.Pending, Clock: o.Clock, Log: o.Log,
	})
}

// newErasureCollector reports the erasures that are not finished. Each scrape asks Postgres.
func newErasureCollector(s *erasure.Service) prometheus.Collector {
	type unfinished struct{ erasures, age float64 }
	read := func(ctx context.Context) unfinished {
		n, age, err := s.Unfinished(ctx)
		if err != nil {
			return unfinished{math.NaN(), math.NaN()}
		}
		return unfinished{float64(n), age.Seconds()}
	}
	const away = " It is missing while Postgres does not respond."
	return newAskingCollector("stepboard_erasures_", read,
		figure[unfinished]{"unfinished", "Erasures of users that are not finished." + away, gauge, func(u unfinished) float64 { return u.erasures }, nil},
		figure[unfinished]{"oldest_seconds", "How long ago the oldest unfinished erasure began; 0 if there is none." + away, gauge, func(u unfinished) float64 { return u.age }, nil},
	)
}

// String returns the roles as the setting names them, such as "api,jobs".
func (r Roles) String() string {
	var names []string
	for _, role := range []struct {
		name string
		has  bool
	}{{"api", r.API}, {"consumer", r.Consumer}, {"jobs", r.Jobs}} {
		if role.has {
			names = append(names, role.name)
		}
	}
	return strings.Join(names, ",")
}

// newReporter returns the reporter of this process. It is used after Build only: the
// streams are built later.
func (a *App) newReporter(o Options) *status.Reporter {
	return status.NewReporter(status.NewStore(o.Stores.Jobs.Gorm), Version(), o.Roles.String(), status.Source{
		Streams: func() int { return a.Streams.Subscribers() },
		Refused: func() int64 {
			refused := a.limits.Stats()
			return refused.Users.Load() + refused.Addresses.Load() + refused.Failures.Load() + refused.Joins.Load() + refused.Reports.Load()
		},
		Latency: a.durations.Calls,
		QueueAge: func(ctx context.Context) time.Duration {
			if a.queue == nil {
				return 0
			}
			lag, err := a.queue.Lag(ctx)
			if err != nil {
				return 0 // the overview says that the queue is away
			}
			return lag.Oldest
		},
	}, o.Clock, o.Log)
}

// queueLag returns the function that measures the queue; nil without a queue.
func (a *App) queueLag() handlers.QueueLag {
	if a.queue == nil {
		return nil
	}
	return a.queue.Lag
}

// newSupport returns the service that shows users to operators.
func (a *App) newSupport(o Options) *support.Service {
	return support.New(support.Options{
		Store: support.NewStore(o.Stores.Gorm), History: a.Ranking, Groups: a.Groups, Corrections: a.Corrections, Reviews: a.Reviews,
	})
}

// Backup calls use with a checked copy of the data folder's database, as stores.Stores.Backup does.
func (a *App) Backup(ctx context.Context, use func(from *stores.Folder, copied *os.File) error) error {
	return a.stores.Backup(ctx, func(copied *os.File) error { return use(a.stores.Folder, copied) })
}

// behind returns what is wrong with copies of the data folder's database, of which one is made each interval; nil
// for nothing: then what was committed an interval and a half ago, or half a second before the last interval, can be
// restored.
func behind(s shipping.Status, interval time.Duration) error {
	late := s.Behind > interval+max(interval/2, 500*time.Millisecond)
	var err error
	switch {
	case s.Superseded:
		return errors.New("another process has begun a later generation at backup.to: nothing more is copied there")
	case !s.Whole:
		err = errors.New("nothing of this generation at backup.to can be restored yet")
	case late || s.Err != nil:
		err = fmt.Errorf("commits may have waited for %v to be copied to backup.to", s.Behind.Round(time.Second))
	}
	if s.Err != nil {
		err = fmt.Errorf("%w: %w", err, s.Err)
	}
	return err
}

// Replaced is what a restored database needs of the one that it replaces.
type Replaced struct {
	erasures  *erasure.Known
	sequences map[string]int64
}

// ReadReplaced reads a data folder's database that is to be replaced. A query for each page of erasures.
func ReadReplaced(ctx context.Context, st *stores.Stores) (*Replaced, error) {
	sequences, err := st.Sequences(ctx)
	if err != nil {
		return nil, err
	}
	known, err := erasure.NewStore(st.Jobs.Gorm, st.Reports.Gorm).Known(ctx)
	if err != nil {
		return nil, err
	}
	return &Replaced{known, sequences}, nil
}

// TakeOver erases in a restored database the users whom the replaced one has erased, and returns their
// number. No id that the replaced one has given is given again. It returns erasure.ErrUnrelated if that
// is no later state of the restored one. Without the replaced one, which is nil, it only leaves row ids
// out that may have been given.
func (a *App) TakeOver(ctx context.Context, r *Replaced) (erased int64, err error) {
	if r == nil {
		return 0, a.Directory.Skip(ctx, directory.Counters{})
	}
	if erased, err = a.Erasure.TakeOver(ctx, r.erasures); err != nil {
		return erased, err
	}
	seen := directory.Counters{Row: models.RowID(r.sequences["users"]), Version: r.sequences["user_versions"]}
	if err := a.Directory.Skip(ctx, seen); err != nil {
		return erased, err
	}
	return erased, a.stores.RaiseSequences(ctx, r.sequences)
}
