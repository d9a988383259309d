package erasure

import (
	"context"

	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ledger"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/reviews"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/privacy"
	"stepboard/services/rankings/likes"
)

// part is something that is stored about users. The service that owns its tables erases and
// exports their rows; this is the registry, and decides the order. Whatever stores something new about them
// adds a part, or its tables and keys to one of these, in newParts; TestEveryTable and
// TestEveryKey fail until then. Erase must return 0 when it finds nothing, or the erasure
// never finishes.
type part struct {
	name string
	// tables are those whose rows name users, and keys the methods of keys.Builder, and
	// the kinds of cached sets, whose keys do.
	tables, keys []string
	// erase removes what is stored about a user, or empties it, and returns how much.
	erase func(ctx context.Context, e *models.Erasure) (changed int64, err error)
	// export writes what is stored about a user as members of the document.
	export func(ctx context.Context, d *document, row models.RowID) error
}

// by returns the erase of a part that a service keeps.
func by(eraser Eraser) func(ctx context.Context, e *models.Erasure) (int64, error) {
	return func(ctx context.Context, e *models.Erasure) (int64, error) { return eraser.Erase(ctx, e.Row) }
}

// newParts returns the parts in the order in which a sweep removes them. Corrections come
// after the archive, where they apply, and totals after the archive, which gives those of
// archived events the row ids of the archived scores.
func (s *Service) newParts() []part {
	return []part{
		{
			name: "profile", tables: []string{"users", "renames"}, keys: []string{"User", "UserRow"},
			erase: s.eraseCopies, export: s.export(directory.ExportSections()),
		},
		{
			name: "scores", tables: []string{"hot_scores"}, keys: []string{"Board", "BoardHour", "Late", "Reported"},
			erase: s.eraseScores, export: s.exportScores,
		},
		{
			name: "friends", tables: []string{"friendships", "friend_requests"},
			keys:  []string{"Set", "SetChanging", "SetLoading", "friends"},
			erase: by(s.o.Friends), export: s.export(friends.ExportSections()),
		},
		{
			name: "privacy", tables: []string{"privacy_choices", "kept_choices"}, keys: []string{"not-shown"},
			erase: by(s.o.Privacy), export: s.export(privacy.ExportSections()),
		},
		{
			name: "groups", tables: []string{"groups", "group_members"}, keys: []string{"groups"},
			erase: by(s.o.Groups), export: s.export(groups.ExportSections()),
		},
		{name: "likes", tables: []string{"likes"}, erase: s.eraseLikes, export: s.export(likes.ExportSections())},
		{name: "archive", tables: []string{"archived_scores", "archived_ranks"}, erase: s.unlessPending(s.o.Archive), export: s.exportArchive},
		{
			name: "increments", tables: []string{"score_events", "score_totals"},
			erase: s.unlessPending(s.o.Increments), export: s.export(ledger.ExportSections()),
		},
		{
			name: "corrections", tables: []string{"corrections", "reported_scores"},
			erase: s.unlessPending(s.o.Corrections), export: s.export(corrections.ExportSections()),
		},
		{name: "reviews", tables: []string{"reviews"}, erase: s.o.Store.erase(reviews.EraseQuery), export: s.export(reviews.ExportSections())},
		{name: "audit", tables: []string{"audit_log"}, erase: s.o.Store.erase(audit.EraseQuery), export: s.export(audit.ExportSections())},
		{name: "dead letters", tables: []string{"dead_letters"}, erase: by(s.o.DeadLetters), export: s.exportDeadLetters},
		{name: "webhooks", tables: []string{"webhook_deliveries"}, erase: by(s.o.Deliveries), export: s.exportDeliveries},
	}
}

// eraseCopies removes what Redis has under any id that the user had. The former ids
// themselves are removed when the erasure is finished, as each sweep needs them.
func (s *Service) eraseCopies(ctx context.Context, e *models.Erasure) (int64, error) {
	former, err := directory.FormerIDs(s.o.Store.db.WithContext(ctx), e.Row)
	if err != nil {
		return 0, err
	}
	copies := []directory.Erased{{Row: e.Row, User: e.User}}
	for _, id := range former {
		copies = append(copies, directory.Erased{Row: e.Row, User: &id})
	}
	return s.o.Directory.DropCopies(ctx, copies...)
}

func (s *Service) eraseScores(ctx context.Context, e *models.Erasure) (int64, error) {
	buckets, err := s.o.Store.hotBuckets(ctx, s.now())
	if err != nil {
		return 0, err
	}
	return s.o.Entries.Remove(ctx, buckets, []models.RowID{e.Row})
}

func (s *Service) eraseLikes(ctx context.Context, e *models.Erasure) (int64, error) {
	return likes.NewStore(s.o.Store.db, nil).Erase(ctx, e.Row)
}

// unlessPending returns the erase of a part that must wait until the archive has applied
// the user's corrections, which a job does within seconds: the archived score would else
// stay as it was. Meanwhile it changes nothing and returns 1, so that another sweep follows.
func (s *Service) unlessPending(eraser Eraser) func(ctx context.Context, e *models.Erasure) (int64, error) {
	return func(ctx context.Context, e *models.Erasure) (int64, error) {
		pending, err := s.o.Pending(ctx, e.Row)
		if err != nil {
			return 0, err
		}
		if pending {
			return 1, nil
		}
		return eraser.Erase(ctx, e.Row)
	}
}
