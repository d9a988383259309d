// Package directory keeps profiles: the nickname and avatar that others see.
package directory

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/maypok86/otter/v2"

	"stepboard/models"
)

const (
	// cacheTTL bounds how long another replica shows a profile that has
	// changed.
	cacheTTL = time.Minute
	// cacheSize bounds the cache, at a few hundred bytes a profile.
	cacheSize = 100_000
	// loadTimeout bounds how long a ranking waits for its names.
	loadTimeout = 500 * time.Millisecond
	// pauseAfterFailure is how long rankings go without names that are not in
	// the cache, once Postgres has failed to answer.
	pauseAfterFailure = 2 * time.Second

	maxNickname  = 64
	maxAvatarURL = 2048
)

// Service keeps profiles. Safe for concurrent use. Close stops it.
type Service struct {
	store  *Store
	cache  *otter.Cache[models.UserID, models.Profile]
	log    *slog.Logger
	paused atomic.Int64 // Unix nanoseconds until which nothing is loaded
}

// New makes a service.
func New(store *Store, log *slog.Logger) *Service {
	return &Service{
		store: store,
		cache: otter.Must(&otter.Options[models.UserID, models.Profile]{
			MaximumSize:      cacheSize,
			ExpiryCalculator: otter.ExpiryWriting[models.UserID, models.Profile](cacheTTL),
		}),
		log: log,
	}
}

// Close stops the cache's goroutines.
func (s *Service) Close() { s.cache.StopAllGoroutines() }

// Put sets a user's profile, making the user if need be. This replica shows
// it at once, others within a minute. CodeValidationFailed names what is
// wrong with it.
func (s *Service) Put(ctx context.Context, user models.UserID, p models.Profile) error {
	if err := check(p); err != nil {
		return err
	}
	if err := s.store.put(ctx, user, p); err != nil {
		return models.Unavailable("store profile", err)
	}
	s.cache.Invalidate(user)
	return nil
}

// Create makes users that do not exist yet, with the given profiles, which may
// be empty; users that exist keep theirs. One statement for every few hundred.
func (s *Service) Create(ctx context.Context, profiles map[models.UserID]models.Profile) error {
	rows := make([]models.User, 0, len(profiles))
	for id, p := range profiles {
		if err := check(p); err != nil && p != (models.Profile{}) {
			return err
		}
		rows = append(rows, models.User{UserID: id, Nickname: p.Nickname, AvatarURL: p.AvatarURL})
	}
	// Ascending ids keep concurrent calls from waiting for each other in a
	// circle.
	slices.SortFunc(rows, func(a, b models.User) int { return cmp.Compare(a.UserID, b.UserID) })
	if err := s.store.create(ctx, rows); err != nil {
		return models.Unavailable("create users", err)
	}
	return nil
}

// Profiles fills in the profile of each user, by position; an unknown user's
// is empty. At most one query, for those that are not in the cache. When that
// fails, their profiles are empty too: a ranking without names is worth more
// than none.
func (s *Service) Profiles(ctx context.Context, ids []models.UserID) []models.Profile {
	profiles := make([]models.Profile, len(ids))
	var missing []models.UserID
	for i, id := range ids {
		p, ok := s.cache.GetIfPresent(id)
		if !ok {
			missing = append(missing, id)
			continue
		}
		profiles[i] = p
	}
	if len(missing) == 0 || time.Now().UnixNano() < s.paused.Load() {
		return profiles
	}
	loaded, err := s.load(ctx, missing)
	if err != nil {
		if ctx.Err() == nil {
			s.paused.Store(time.Now().Add(pauseAfterFailure).UnixNano())
			s.log.WarnContext(ctx, "rankings go without names that are not cached", "error", err)
		}
		return profiles
	}
	for i, id := range ids {
		if p, ok := loaded[id]; ok {
			profiles[i] = p
		}
	}
	return profiles
}

// load reads profiles through the cache, which drops what a change overtakes.
func (s *Service) load(ctx context.Context, ids []models.UserID) (map[models.UserID]models.Profile, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return s.cache.BulkGet(ctx, ids, otter.BulkLoaderFunc[models.UserID, models.Profile](
		func(ctx context.Context, ids []models.UserID) (map[models.UserID]models.Profile, error) {
			profiles, err := s.store.profiles(ctx, ids)
			if err != nil {
				return nil, err
			}
			// Users that do not exist are remembered too.
			for _, id := range ids {
				if _, ok := profiles[id]; !ok {
					profiles[id] = models.Profile{}
				}
			}
			return profiles, nil
		}))
}

// check is the rule of what a profile may hold.
func check(p models.Profile) error {
	switch n := utf8.RuneCountInString(p.Nickname); {
	case !utf8.ValidString(p.Nickname):
		return models.Invalid("body.nickname", "is not UTF-8")
	case strings.TrimSpace(p.Nickname) == "" || n > maxNickname:
		return models.Invalid("body.nickname", "has 1 to 64 characters that show")
	case strings.ContainsFunc(p.Nickname, unicode.IsControl):
		return models.Invalid("body.nickname", "has no control characters")
	}
	if p.AvatarURL == "" {
		return nil
	}
	u, err := url.Parse(p.AvatarURL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || len(p.AvatarURL) > maxAvatarURL {
		return models.Invalid("body.avatar_url", "is an http or https address of at most 2048 bytes")
	}
	return nil
}
