package ranking

import (
	"context"
	"slices"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// readAtOnce is how many scores Digest reads from Redis in one command, so that other callers
// wait for it no longer than for a friend ranking.
const readAtOnce = 250

// Digest returns the line of each of the users who has a score in a hot bucket, without likes,
// from the same friends and scores as Friends. Two queries, and a round trip to Redis for each
// readAtOnce users and friends; the memory of all of their friends at once, so callers pass some
// dozens of users.
func (s *Service) Digest(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.DigestLine, error) {
	composites := make(map[models.RowID]models.Composite, len(users))
	if err := s.addComposites(ctx, bucket, users, composites); err != nil {
		return nil, err
	}
	users = slices.DeleteFunc(slices.Clone(users), func(user models.RowID) bool { return composites[user] == 0 })
	if len(users) == 0 {
		return nil, nil
	}
	friends, err := s.o.Friends.IDsOf(ctx, users)
	if err != nil {
		return nil, err
	}
	var others []models.RowID
	for _, ids := range friends {
		others = append(others, ids...)
	}
	slices.Sort(others)
	if err := s.addComposites(ctx, bucket, slices.Compact(others), composites); err != nil {
		return nil, err
	}
	codec := score.Of(bucket)
	lines := make([]models.DigestLine, len(users))
	for i, user := range users {
		entries := []models.Entry{{User: user, Composite: composites[user]}}
		for _, friend := range friends[user] {
			if c := composites[friend]; c != 0 {
				entries = append(entries, models.Entry{User: friend, Composite: c})
			}
		}
		points, _ := codec.Decode(entries[0].Composite)
		lines[i] = models.DigestLine{
			User: user, Rank: int64(1 + countBefore(entries, entries[0])), Total: int64(len(entries)), Score: points,
			Leader: leader(entries).User,
		}
	}
	return lines, nil
}

// addComposites adds the composites of those of the users who are not in the map.
func (s *Service) addComposites(
	ctx context.Context, bucket *models.Bucket, users []models.RowID, composites map[models.RowID]models.Composite,
) error {
	for chunk := range slices.Chunk(users, readAtOnce) {
		found, err := s.composites(ctx, place{bucket: bucket}, s.o.Entries, chunk)
		if err != nil {
			return err
		}
		for i, user := range chunk {
			composites[user] = found[i]
		}
	}
	return nil
}
