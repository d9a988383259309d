package app

import (
	"context"

	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/privacy"
	"stepboard/services/people/teams"
)

// people holds the services of users and of what connects them.
type people struct {
	Directory *directory.Service
	Sets      cache.Copies
	Friends   *friends.Service
	Privacy   *privacy.Service
	Groups    *groups.Service
	Teams     *teams.Service
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
	return w, users.LoadErased(ctx)
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
