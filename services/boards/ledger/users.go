package ledger

import (
	"context"
	"fmt"
	"slices"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// Composites returns what the running totals of users make of their scores in a bucket of
// the ledger, by position; 0 for users without any. CodeUnavailable if Postgres is away. One
// query for each thousand users.
func (r *Reconciler) Composites(
	ctx context.Context, bucket *models.Bucket, users []models.RowID,
) ([]models.Composite, error) {
	_, composites, err := r.totalsOfUsers(ctx, bucket, users)
	return composites, err
}

// RaiseUsers raises the entries of users in a bucket of the ledger that are less than their
// running totals. It returns how many it has raised, in a rolling bucket counted by hours.
// One query for each thousand users, one round trip, and another one if entries are raised.
func (r *Reconciler) RaiseUsers(
	ctx context.Context, bucket *models.Bucket, users []models.RowID,
) (raised int64, err error) {
	totals, want, err := r.totalsOfUsers(ctx, bucket, users)
	if err != nil {
		return 0, err
	}
	stored, err := r.Entries.Composites(ctx, bucket, users)
	if err != nil {
		return 0, err
	}
	lower := make(map[models.RowID]bool)
	for i, user := range users {
		lower[user] = stored[i] < want[i]
	}
	p := r.pass(func(int64) {})
	err = p.raise(ctx, slices.DeleteFunc(totals, func(t models.ScoreTotal) bool { return !lower[t.User] }))
	return p.restored, err
}

// totalsOfUsers returns the running totals that make up the scores of users in a bucket, and the
// composites of these scores by position. A score was reached when the last of its totals was.
func (r *Reconciler) totalsOfUsers(
	ctx context.Context, bucket *models.Bucket, users []models.RowID,
) (totals []models.ScoreTotal, composites []models.Composite, err error) {
	totalRange, err := r.Totals.OfBucket(bucket, r.Clock())
	if err == nil {
		totals, err = r.Store.totalsOf(ctx, totalRange, users)
	}
	if err != nil {
		return nil, nil, err
	}
	sums := make(map[models.RowID]balance, len(users))
	for _, t := range totals {
		sums[t.User] = sums[t.User].join(bucket.Best, balance{t.Score, models.TimestampOf(t.ReachedAt), true})
	}
	codec := score.Of(bucket)
	composites = make([]models.Composite, len(users))
	for i, user := range users {
		if sum := sums[user]; sum.stored {
			if composites[i], err = codec.Encode(models.Points(sum.score), sum.reachedAt); err != nil {
				return nil, nil, fmt.Errorf("a score of the ledger can't be encoded in its bucket: %w", err)
			}
		}
	}
	return totals, composites, nil
}
