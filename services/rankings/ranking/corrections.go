package ranking

import (
	"context"

	"stepboard/models"
)

// Corrections are operators' decisions about scores. Implemented by corrections.Service.
type Corrections interface {
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
