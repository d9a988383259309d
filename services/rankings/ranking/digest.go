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
	codec := score.Of(bucket)
	var lines []models.DigestLine
	err := s.eachCircle(ctx, bucket, users, func(entries []models.Entry) {
		points, _ := codec.Decode(entries[0].Composite)
		lines = append(lines, models.DigestLine{
			User: entries[0].User, Rank: 1 + countBefore(entries, entries[0]), Total: int64(len(entries)), Score: bucket.Score(points),
			Leader: leader(entries).User,
		})
	})
	return lines, err
}

// Neighbours is a user's entry in a bucket, and who is before and behind it among those friends who
// have a score and are shown to the user, best first.
type Neighbours struct {
	Mine          models.Entry
	Ahead, Behind []models.RowID
}

// Neighbours returns those of each of the users who has a score in a hot bucket, from the
// same friends and scores as Friends, at the cost of Digest.
func (s *Service) Neighbours(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]Neighbours, error) {
	var list []Neighbours
	err := s.eachCircle(ctx, bucket, users, func(entries []models.Entry) {
		at := Neighbours{Mine: entries[0]}
		slices.SortFunc(entries, models.Entry.Compare)
		for _, e := range entries {
			switch {
			case e.Before(at.Mine):
				at.Ahead = append(at.Ahead, e.User)
			case e.User != at.Mine.User:
				at.Behind = append(at.Behind, e.User)
			}
		}
		list = append(list, at)
	})
	return list, err
}

// eachCircle calls do with the entries of each of the users who has a score in a hot bucket, the
// user's own first, then those of the friends who have one and are shown to the user, in no order.
// do may reorder them. Its cost is that of Digest.
func (s *Service) eachCircle(ctx context.Context, bucket *models.Bucket, users []models.RowID, do func(entries []models.Entry)) error {
	composites := make(map[models.RowID]models.Composite, len(users))
	if err := s.addComposites(ctx, bucket, users, composites); err != nil {
		return err
	}
	users = slices.DeleteFunc(slices.Clone(users), func(user models.RowID) bool { return composites[user] == 0 })
	if len(users) == 0 {
		return nil
	}
	friends, err := s.o.Friends.IDsOf(ctx, users)
	if err != nil {
		return err
	}
	var others []models.RowID
	for _, ids := range friends {
		others = append(others, ids...)
	}
	slices.Sort(others)
	if err := s.addComposites(ctx, bucket, slices.Compact(others), composites); err != nil {
		return err
	}
	for _, user := range users {
		entries := []models.Entry{{User: user, Composite: composites[user]}}
		for _, friend := range friends[user] {
			if c := composites[friend]; c != 0 {
				entries = append(entries, models.Entry{User: friend, Composite: c})
			}
		}
		do(entries)
	}
	return nil
}

// addComposites adds the composites of those of the users who are not in the map.
func (s *Service) addComposites(
	ctx context.Context, bucket *models.Bucket, users []models.RowID, composites map[models.RowID]models.Composite,
) error {
	store := &attempt{place: place{bucket: bucket}}
	for chunk := range slices.Chunk(users, readAtOnce) {
		found, err := s.composites(ctx, store, chunk)
		if err != nil {
			return err
		}
		for i, user := range chunk {
			composites[user] = found[i]
		}
	}
	return nil
}
