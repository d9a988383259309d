package ranking

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
)

// Corrections are operators' decisions about scores. Implemented by corrections.Service.
type Corrections interface {
	// Correct replaces the composites of users in a bucket that is not archived by what
	// corrections make of them, by position. No I/O.
	Correct(bucket *models.Bucket, users []models.RowID, composites []models.Composite)
	// Kind returns the kind of the correction of a user's score that holds; empty if there
	// is none. One query if the bucket is archived.
	Kind(ctx context.Context, bucket *models.Bucket, user models.RowID, archived bool) (models.CorrectionKind, error)
}

// Correction says what an operator has made of a user's score.
type Correction string

// What users are shown of corrections.
const (
	// CorrectionSet is a score that was lowered.
	CorrectionSet Correction = "set"
	// CorrectionExcluded means that the user is not ranked.
	CorrectionExcluded Correction = "excluded"
)

// correctionOf returns what was made of the viewer's score; nil for nothing.
func (s *Service) correctionOf(ctx context.Context, r *request) (*Correction, error) {
	if s.corrections == nil || r.viewer == 0 {
		return nil, nil //nolint:nilnil // most scores have none
	}
	kind, err := s.corrections.Kind(ctx, r.bucket, r.viewer, r.ranking.Source == models.SourceArchive)
	if err != nil || kind == "" {
		return nil, err
	}
	correction := CorrectionSet
	if kind == models.CorrectionExclude {
		correction = CorrectionExcluded
	}
	return &correction, nil
}

// correctedBoards applies corrections to what it reads of users in Redis. Windows have
// what the board itself has, where a job applies them.
type correctedBoards struct {
	Boards
	corrections Corrections
}

// Composites is part of Reader.
func (c correctedBoards) Composites(
	ctx context.Context, bucket *models.Bucket, users []models.RowID,
) ([]models.Composite, error) {
	composites, err := c.Boards.Composites(ctx, bucket, users)
	if err == nil {
		c.corrections.Correct(bucket, users, composites)
	}
	return composites, err
}

// CompositesOf is part of Boards.
func (c correctedBoards) CompositesOf(
	ctx context.Context, buckets []*models.Bucket, users []models.RowID,
) ([][]models.Composite, error) {
	lists, err := c.Boards.CompositesOf(ctx, buckets, users)
	if err == nil {
		for i, bucket := range buckets {
			c.corrections.Correct(bucket, users, lists[i])
		}
	}
	return lists, err
}

// Positions is part of Boards. A user who is excluded has no position.
func (c correctedBoards) Positions(
	ctx context.Context, buckets []*models.Bucket, user models.RowID,
) ([]board.Position, error) {
	positions, err := c.Boards.Positions(ctx, buckets, user)
	if err != nil {
		return nil, err
	}
	for i, bucket := range buckets {
		composite := []models.Composite{positions[i].Composite}
		c.corrections.Correct(bucket, []models.RowID{user}, composite)
		if composite[0] == 0 {
			positions[i] = board.Position{}
		} else if positions[i].Composite != 0 {
			positions[i].Composite = composite[0]
		}
	}
	return positions, nil
}

// correctedNear applies corrections to what it reads from the memory of the process.
type correctedNear struct {
	NearCache
	corrections Corrections
}

// Composites is part of NearCache.
func (c correctedNear) Composites(
	bucket *models.Bucket, users []models.RowID, composites []models.Composite,
) (asOf time.Time, ok bool) {
	asOf, ok = c.NearCache.Composites(bucket, users, composites)
	if ok {
		c.corrections.Correct(bucket, users, composites)
	}
	return asOf, ok
}
