package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/operations/erasure"
	"stepboard/services/people/directory"
)

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
