package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/identities"
	"stepboard/services/people/privacy"
	"stepboard/services/people/providers"
	"stepboard/services/people/sessions"
	"stepboard/services/people/teams"
	"stepboard/services/platform/auth"
)

// people holds the services of users and of what connects them.
type people struct {
	Directory *directory.Service
	Sets      cache.Copies
	Friends   *friends.Service
	Privacy   *privacy.Service
	Groups    *groups.Service
	Teams     *teams.Service
	Sessions  *sessions.Service
	Providers *providers.Service
	// jobTeams is Teams over the connections of jobs.
	jobTeams *teams.Service
}

// newPeople constructs the services of people, and loads who was erased. idKey is the key of directory.IDHash, and
// returned is called with the rows of users whose ids have returned.
func newPeople(
	ctx context.Context, o Options, p platform, boards *catalog.Catalog, idKey []byte, returned func(context.Context, []models.RowID) error,
) (people, error) {
	copies := p.backing.copies()
	users := directory.New(directory.Options{
		Store: directory.NewStore(o.Stores.Gorm), Copies: copies,
		Memory: int64(o.Config.Directory.Memory), Log: o.Log, Elapsed: o.Elapsed, IDKey: idKey, Return: returned,
	})
	w := people{Directory: users, Sets: p.backing.sets()}
	w.Friends = friends.New(friends.NewStore(o.Stores.Friends.Gorm, p.outbox), w.Sets, users, friends.Limits{
		Pending: o.Config.Friends.MaxPending, PerDay: o.Config.Friends.RequestsPerDay, Joins: p.limits,
	}, o.Log)
	w.Privacy = privacy.New(privacy.NewStore(o.Stores.Friends.Gorm), w.Sets, w.Friends, users, o.Config.Limits.HidingsPerHour, o.Log)
	p.registry.MustRegister(newDirectoryCollector(users, copies != nil), newFriendsCollector(w.Friends))
	newTeams := func(work stores.Database) (*teams.Store, *teams.Service) {
		store := teams.NewStore(work.Gorm, func(board string) (models.Date, error) {
			b, err := boards.Definitions.Board(board)
			if err != nil {
				return 0, err
			}
			return b.Today(o.Clock()), nil
		})
		return store, teams.New(store, func(board string) error { return requireTotals(boards, board) }, users, p.limits)
	}
	store, defined := newTeams(o.Stores.Friends)
	w.Teams = defined
	_, w.jobTeams = newTeams(o.Stores.Jobs)
	w.Groups = groups.New(groups.NewStore(o.Stores.Friends.Gorm, store), w.Sets, w.Privacy.Sets(), users, p.limits, o.Log)
	w.Sessions = newSessions(o, w, idKey, returned)
	signIn, err := newProviders(o, w.Sessions)
	if err != nil {
		return w, err
	}
	w.Providers = signIn
	p.registry.MustRegister(newSessionsCollector(w.Sessions, w.Providers))
	return w, users.LoadErased(ctx)
}

// sessionSecret returns the secret that signs the tokens of sessions; empty for none.
func (o *Options) sessionSecret() string { return cmp.Or(o.SessionSecret, o.Config.Auth.HS256Secret) }

// newSessions constructs the service that signs people in. Without a secret nobody can.
func newSessions(o Options, w people, idKey []byte, returned func(context.Context, []models.RowID) error) *sessions.Service {
	tokens := o.Config.Auth
	options := sessions.Options{
		Store: sessions.NewStore(o.Stores.Gorm), Directory: w.Directory, Groups: w.Groups, Friends: w.Friends, NetworkKey: idKey,
		Identities: identities.NewStore(o.Stores.Gorm, idKey), Returned: returned,
		TokenTTL: tokens.MaxTokenLifetime, TTL: o.Config.SignIn.SessionTTL, Join: o.Config.SignIn.Join, NewPerDay: o.Config.SignIn.NewPerDay,
		Clock: o.Clock, Log: o.Log,
	}
	if secret := o.sessionSecret(); secret != "" {
		options.Sign = func(user models.UserID, scope string, session int64, ttl time.Duration) (string, time.Time, error) {
			now := o.Machine() // by which tokens are checked
			text, err := auth.SignSession([]byte(secret), user, scope, session, tokens.Issuer, tokens.Audience, now, ttl)
			return text, now.Add(ttl), err
		}
	}
	return sessions.New(options)
}

// providerSession is how long who was signed in by a provider stays so, unless the settings say.
const providerSession = 168 * time.Hour

// newProviders constructs the service of OpenID Connect.
func newProviders(o Options, s *sessions.Service) (*providers.Service, error) {
	options := providers.Options{
		PublicURL: strings.TrimSuffix(o.Config.HTTP.PublicURL, "/"), Sessions: s, Secret: []byte(o.sessionSecret()), Clock: o.Machine, Log: o.Log,
	}
	for _, p := range o.Config.SignIn.OIDC {
		provider := providers.Provider{
			Name: p.Name, Title: cmp.Or(p.Title, p.Name), Issuer: p.Issuer, ClientID: p.ClientID, ClientSecret: p.ClientSecret,
			Scopes: p.Scopes, Session: cmp.Or(p.Session, providerSession), UserClaim: p.UserClaim,
		}
		if len(p.Scopes) == 0 {
			provider.Scopes = []string{"profile"}
		}
		for _, a := range p.Allow {
			provider.Allow = append(provider.Allow, providers.Allow(a))
		}
		options.Providers = append(options.Providers, provider)
	}
	return providers.New(options)
}

// newSessionsCollector reports who has signed in.
func newSessionsCollector(s *sessions.Service, p *providers.Service) prometheus.Collector {
	stats := s.Stats()
	const provided = "Attempts to sign in by an OpenID Connect provider that have ended, by how."
	return newNumbers("stepboard_sign_in_", append(counters("by_provider_total", provided, "result", p.Ends()),
		number{"sessions_total", "Sessions that were opened.", counter, of(&stats.Opened), nil},
		number{"joined_total", "Users that invitations have made.", counter, of(&stats.Joined), nil},
		number{"wrong_codes_total", "Codes that were not valid.", counter, of(&stats.Wrong), nil},
		number{"refused_total", "Codes and invitations that were refused because there were too many.", counter, of(&stats.Refused), nil},
	)...)
}

// cookieName returns the name of the cookie of sessions: browsers share cookies between the ports of a host, so it has
// letters of the service's own key.
func cookieName(idKey []byte) string {
	sum := sha256.Sum256(append([]byte("cookie of sessions "), idKey...))
	return "stepboard_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:8]
}

// requireTotals returns an error unless a board can have competitions.
func requireTotals(boards *catalog.Catalog, board string) error {
	b, err := boards.Definitions.Board(board)
	if err == nil {
		err = b.RequireDays()
	}
	if err == nil {
		err = b.RequireHigh("competitions")
	}
	return err
}
