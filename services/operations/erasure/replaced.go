package erasure

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"stepboard/models"
	"stepboard/services/platform/revoked"
)

// Known is what a database or a file knows about erasures.
type Known struct {
	secret []byte
	list   []models.Erasure // newest first; of a file with their hashes alone
	// revoked has the hashes of keys and codes that were ended.
	revoked [][]byte
}

// ErrUnrelated means that a database is no earlier state of another one: it has another key.
var ErrUnrelated = errors.New("is another service's, or a new one")

// Known returns all erasures, and what was revoked. One query for each filePage, and one more.
func (s *Store) Known(ctx context.Context) (*Known, error) {
	secret, err := s.Key(ctx)
	if err != nil {
		return nil, err
	}
	known := &Known{secret: secret}
	if known.revoked, err = revoked.All(s.db.WithContext(ctx)); err != nil {
		return nil, err
	}
	for before := int64(0); ; {
		page, err := s.list(ctx, before, filePage)
		if err != nil {
			return nil, err
		}
		known.list = append(known.list, page...)
		if len(page) < filePage {
			return known, nil
		}
		before = page[len(page)-1].ID
	}
}

// TakeOver erases the users whom a later state of this database has erased, and returns their number. It also
// revokes the upload addresses that were revoked there.
// It also stores the erasures of users who came later, because a later backup may be restored next.
// The row ids of these must not be given to anybody. ErrUnrelated. It reads all users, as ApplyFile
// does, and needs two statements for each exportRows erasures.
func (s *Service) TakeOver(ctx context.Context, later *Known) (n int64, err error) {
	secret, err := s.o.Store.Key(ctx)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(secret, later.secret) {
		return 0, ErrUnrelated
	}
	if n, err = s.apply(ctx, later); err != nil {
		return n, err
	}
	now := s.now()
	for chunk := range slices.Chunk(later.list, exportRows) {
		rows := make([]models.Erasure, len(chunk))
		for i, e := range chunk { // nothing else of these users is here
			rows[i] = models.Erasure{Row: e.Row, Hash: e.Hash, BegunAt: e.BegunAt, FinishedAt: &now}
		}
		if err := s.o.Store.add(ctx, rows); err != nil {
			return n, err
		}
	}
	return n, nil
}
