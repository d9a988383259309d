// Package directory stores profiles: the nickname and avatar that others see.
package directory

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"stepboard/models"
)

const (
	// cacheTTL bounds how long another replica shows a profile after a change.
	cacheTTL = time.Minute
	// cacheSize bounds the number of cached profiles, a few hundred bytes each.
	cacheSize = 100_000
	// loadTimeout bounds how long a ranking waits for profiles.
	loadTimeout = 500 * time.Millisecond
	// pauseAfterFailure is the time after a failed query during which profiles
	// come from the cache alone.
	pauseAfterFailure = 2 * time.Second
)

// Service stores and caches profiles. Safe for concurrent use.
type Service struct {
	store  *Store
	cache  *otter.Cache[models.RowID, models.Profile]
	log    *slog.Logger
	paused atomic.Int64 // Unix nanoseconds until which nothing is loaded
}

// New returns a service. The caller must call Close.
func New(store *Store, log *slog.Logger) *Service {
	return &Service{
		store: store,
		cache: otter.Must(&otter.Options[models.RowID, models.Profile]{
			MaximumSize:      cacheSize,
			ExpiryCalculator: otter.ExpiryWriting[models.RowID, models.Profile](cacheTTL),
		}),
		log: log,
	}
}

// Close stops the cache's goroutines.
func (s *Service) Close() { s.cache.StopAllGoroutines() }

// Get returns a user's profile as it is stored; that of an unknown user is empty. One
// query, which the cache does not spare: a profile that is edited must be the latest.
func (s *Service) Get(ctx context.Context, user models.RowID) (models.Profile, error) {
	profiles, err := s.store.profiles(ctx, []models.RowID{user})
	if err != nil {
		return models.Profile{}, models.Unavailable("read profile", err)
	}
	return profiles[user], nil
}

// Put sets a user's profile, creates the user if necessary, and returns the profile
// as it is stored: its nickname is normalized. This replica shows it at once,
// others within a minute. CodeValidationFailed if the profile is invalid.
func (s *Service) Put(ctx context.Context, user models.RowID, p models.Profile) (models.Profile, error) {
	p, err := normalized(p)
	if err != nil {
		return models.Profile{}, err
	}
	if err := s.store.put(ctx, user, p); err != nil {
		return models.Profile{}, models.Unavailable("store profile", err)
	}
	s.cache.Invalidate(user)
	return p, nil
}

// Create creates users that do not exist yet, with the given profiles, which may
// be empty. Users that exist keep their profiles. One statement for each 200 users.
func (s *Service) Create(ctx context.Context, profiles map[models.RowID]models.Profile) error {
	rows := make([]models.User, 0, len(profiles))
	for id, p := range profiles {
		if p != (models.Profile{}) {
			var err error
			if p, err = normalized(p); err != nil {
				return err
			}
		}
		rows = append(rows, models.User{UserID: id, Nickname: p.Nickname, AvatarURL: p.AvatarURL})
	}
	// Ascending ids avoid deadlocks between concurrent calls.
	slices.SortFunc(rows, func(a, b models.User) int { return cmp.Compare(a.UserID, b.UserID) })
	if err := s.store.create(ctx, rows); err != nil {
		return models.Unavailable("create users", err)
	}
	return nil
}

// Profiles returns the profile of each user, by position. The profile of an
// unknown user is empty. At most one query, for the users that are not in the
// cache. If it fails, their profiles are empty too: a ranking without names is
// better than none.
func (s *Service) Profiles(ctx context.Context, ids []models.RowID) []models.Profile {
	profiles := make([]models.Profile, len(ids))
	var missing []models.RowID
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

// load reads profiles into the cache. The cache discards a profile that was
// invalidated while it was read.
func (s *Service) load(ctx context.Context, ids []models.RowID) (map[models.RowID]models.Profile, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return s.cache.BulkGet(ctx, ids, otter.BulkLoaderFunc[models.RowID, models.Profile](
		func(ctx context.Context, ids []models.RowID) (map[models.RowID]models.Profile, error) {
			profiles, err := s.store.profiles(ctx, ids)
			if err != nil {
				return nil, err
			}
			// Users that do not exist are cached, too.
			for _, id := range ids {
				if _, ok := profiles[id]; !ok {
					profiles[id] = models.Profile{}
				}
			}
			return profiles, nil
		}))
}
