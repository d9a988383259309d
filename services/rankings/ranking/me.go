package ranking

import (
	"context"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// Standing is a user's position in a bucket, among all users and among friends.
// If the user has no score, all fields but the totals, the correction and what is held are nil.
type Standing struct {
	Score        *int64            `json:"score" doc:"The user's score" example:"12345"`
	ReachedAt    *models.Timestamp `json:"reached_at" format:"date-time" doc:"When it was reached" example:"2026-11-20T13:00:00.123Z"`
	GlobalRank   *int64            `json:"global_rank" doc:"Place among everybody" example:"120"`
	GlobalTotal  int64             `json:"global_total" doc:"How many users have a score" example:"2000"`
	FriendsRank  *int64            `json:"friends_rank" doc:"Place among the user and the user's friends" example:"3"`
	FriendsTotal int64             `json:"friends_total" doc:"How many of these have a score" example:"22"`
	Percentile   *float64          `json:"percentile" doc:"100 × others below ÷ others, rounded down to 0.1; 100 if there are no others" example:"94"`

	Correction *Correction `json:"correction" enum:"set,excluded" doc:"What an operator has made of the score: set to a worse one, or excluded from the ranking. Null for nothing"`
	Held       *Held       `json:"held" doc:"A total of the user that is unusually large and counts only once an operator has looked at it; null for none. Nobody else is shown it"`
}

// Held is a total that does not count until an operator has released it.
type Held struct {
	Score     int64            `json:"score" doc:"The largest held total of the day" example:"98800"`
	ReachedAt models.Timestamp `json:"reached_at" format:"date-time" doc:"When it was uploaded" example:"2026-11-20T13:00:00.123Z"`
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

// Me returns the viewer's standing. Two round trips to Redis, and a third if the bucket has several
// shards; none if the bucket's order is in memory. One round trip and three queries if the bucket
// is archived. Boards with a HoldAbove cost one query more.
func (s *Service) Me(ctx context.Context, q Query) (standing *Standing, err error) {
	r, err := s.resolve(ctx, q, "me")
	if err != nil {
		return nil, err
	}
	r.position = true
	err = s.answer(ctx, &r, func(a *attempt) (err error) {
		standing, err = s.standing(ctx, &r, a)
		return err
	})
	return standing, err
}

// standing is Me from one place.
func (s *Service) standing(ctx context.Context, r *request, a *attempt) (*Standing, error) {
	if a.bucket == nil {
		return &Standing{}, nil
	}
	found, err := s.read(ctx, r, a)
	if err != nil {
		return nil, err
	}
	friends := Rank(found.entries, r.viewer, models.Entry{}, 0)
	var w userWindow
	// A correction that is not on the board yet, or a score that was raised meanwhile, is not
	// that of the position.
	if at := found.position; at != nil && at.Composite == friends.Mine.Composite {
		w = userWindow{entry: models.Entry{User: r.viewer, Composite: at.Composite}, rank: at.Rank, Window: board.Window{Total: at.Total}}
	} else if w, err = s.windowAround(ctx, a, r.viewer, 0, 1); err != nil {
		return nil, err
	}
	standing := &Standing{GlobalTotal: w.Total, FriendsTotal: friends.Total}
	if standing.Correction, err = s.correctionOf(ctx, a.place, r.viewer); err != nil {
		return nil, err
	}
	if standing.Held, err = s.heldOf(ctx, r.board, a.bucket, r.viewer); err != nil {
		return nil, err
	}
	if friends.MyRank == 0 || w.rank == 0 {
		return standing, nil
	}
	points, reachedAt := score.Of(a.bucket).Decode(w.entry.Composite)
	standing.Score, standing.ReachedAt = new(a.bucket.Score(points)), &reachedAt
	standing.GlobalRank, standing.FriendsRank = &w.rank, new(friends.MyRank)
	standing.Percentile = new(Percentile(w.rank, w.Total))
	return standing, nil
}

// correctionOf returns what was made of a user's score; nil for nothing.
func (s *Service) correctionOf(ctx context.Context, at place, user models.RowID) (*Correction, error) {
	if s.o.Corrections == nil || user == 0 {
		return nil, nil //nolint:nilnil // most scores have none
	}
	kind, err := s.o.Corrections.Kind(ctx, at.bucket, user, at.archived)
	if err != nil || kind == "" {
		return nil, err
	}
	correction := CorrectionSet
	if kind == models.CorrectionExclude {
		correction = CorrectionExcluded
	}
	return &correction, nil
}

// heldOf returns the open hold of a user in a bucket; nil for none.
func (s *Service) heldOf(ctx context.Context, b *catalog.Board, bucket *models.Bucket, user models.RowID) (*Held, error) {
	if b.HoldAbove == 0 || user == 0 {
		return nil, nil //nolint:nilnil // most boards have none
	}
	hold, err := s.o.Holds.Of(ctx, bucket, user)
	if err != nil || hold == nil || hold.State != models.HoldOpen {
		return nil, err
	}
	return &Held{hold.Score, models.TimestampOf(hold.ReachedAt)}, nil
}

// Percentile returns 100 × the number of users ranked below ÷ the number of all
// other users, rounded down to 0.1; 100 without other users.
func Percentile(rank, total int64) float64 {
	if total <= 1 {
		return 100
	}
	return float64(1000*(total-rank)/(total-1)) / 10
}
