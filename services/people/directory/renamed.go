package directory

import (
	"context"
	"errors"
	"sync"

	"stepboard/models"
)

// renamedRows are the ids of users who were renamed. A copy that maps another user id to
// the row id of one of them is outdated, in the process or in Redis: that id is nobody's or
// somebody else's, and is looked up again. Safe for concurrent use.
type renamedRows struct {
	mu   sync.RWMutex
	now  map[models.RowID]renamed
	last int64 // the largest id of a rename that was read; only readErased uses it
}

// renamed is a user's id, and the version of the record that has it.
type renamed struct {
	user    models.UserID
	version int64
}

// rename holds the columns of a rename that a process reads: the record as it is now.
type rename struct {
	ID      int64
	Row     models.RowID  `gorm:"column:user_id"`
	User    models.UserID `gorm:"column:external_id"`
	Version int64
}

// add notes the id of a user who was renamed, unless that of a newer record is known.
func (r *renamedRows) add(row models.RowID, user models.UserID, version int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.now[row]; !ok || known.version < version {
		r.now[row] = renamed{user, version}
	}
}

// remove forgets the id of a user who was erased.
func (r *renamedRows) remove(row models.RowID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.now, row)
}

// isFormer reports whether the user of a row was renamed and has another id now.
func (r *renamedRows) isFormer(user models.UserID, row models.RowID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	now, ok := r.now[row]
	return ok && now.user != user
}

// outdated reports whether a copy that maps a user to a row is known to be outdated.
func (s *Service) outdated(user models.UserID, row models.RowID) bool {
	return s.erased.has(row) || s.renamed.isFormer(user, row)
}

// readRenames reads the latest renames, or all of them. One query.
func (s *Service) readRenames(ctx context.Context, all bool) error {
	after := max(0, s.renamed.last-erasedOverlap)
	if all {
		after = 0
	}
	list, err := s.store.renamesAfter(ctx, after)
	if err != nil {
		return err
	}
	for _, r := range list {
		s.renamed.last = max(s.renamed.last, r.ID)
		s.renamed.add(r.Row, r.User, r.Version)
	}
	return nil
}

// Rename gives a user another id, which nobody has. Everything that the user has stays, and if the
// other id was erased, what was kept of it holds for the user. The
// former id is nobody's afterwards: this process knows that at once, others within 2 seconds.
// Renaming somebody to their own id, and repeating the user's last renaming, changes nothing.
// CodeUserNotFound if there is no such user, CodeUserExists if somebody has the other id, CodeValidationFailed if only
// signing up makes it, CodeUnavailable.
func (s *Service) Rename(ctx context.Context, user, to models.UserID) error {
	if user == to {
		records, err := s.store.byUser(ctx, []string{string(user)})
		if err == nil && len(records) == 0 {
			err = errNotStored
		}
		return renameError(user, to, err)
	}
	if to.SignsUp() {
		return models.Invalid("body.to", "is an id that only signing up makes")
	}
	record, err := s.store.rename(ctx, s.key, user, to)
	if err != nil {
		return renameError(user, to, err)
	}
	s.renamed.add(record.Row, record.User, record.Version)
	s.versions.add(record)
	ctx = context.WithoutCancel(ctx)
	if _, err := s.DropCopies(ctx, Erased{Row: record.Row, User: &user}); err != nil {
		s.log.WarnContext(ctx, "the copy of a former user id stays in Redis until it expires", "error", err)
	}
	s.keep(ctx, []models.Record{record})
	s.moveKept(ctx, []models.RowID{record.Row})
	return nil
}

// renameError returns the error that clients see; nil for nil.
func renameError(user, to models.UserID, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotStored):
		return models.NoUser(user)
	case errors.Is(err, errTaken):
		return models.Errorf(models.CodeUserExists, "there is a user %s already; erase them first, or choose another id", to)
	default:
		return models.Unavailable("rename a user", err)
	}
}
