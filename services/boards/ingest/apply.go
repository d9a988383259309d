package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// Users finds the users that updates are for. Implemented by directory.Service.
type Users interface {
	// Exists reports whether a row was given to a user. CodeUnavailable if that can't
	// be looked up now.
	Exists(ctx context.Context, row models.RowID) (bool, error)
}

// Targets finds what updates are for.
type Targets struct {
	Buckets *catalog.Buckets
	Users   Users
}

// Entries are those of buckets in Redis. Implemented by board.Store.
type Entries interface {
	// Raise applies updates. It returns nil if all of them are applied, otherwise
	// one error for each, nil for those that are.
	Raise(ctx context.Context, raises []models.Raise) []error
}

// raiseChunk is how many updates one call raises: a few milliseconds of Redis.
const raiseChunk = 5000

// merged holds the best composite of each user in each bucket, out of any
// number of updates, in the order of the first ones.
type merged struct {
	raises []models.Raise
	at     map[member]int // positions in raises
	raised int            // how many of them are applied
}

func newMerged() *merged { return &merged{at: make(map[member]int)} }

type member struct {
	bucket *models.Bucket
	user   models.RowID
}

func (m *merged) add(r models.Raise) {
	key := member{r.Bucket, r.User}
	if i, ok := m.at[key]; ok {
		m.raises[i].Composite = max(m.raises[i].Composite, r.Composite)
		return
	}
	m.at[key] = len(m.raises)
	m.raises = append(m.raises, r)
}

// badMessage is a message that can never be applied, and why.
type badMessage struct {
	Message
	err error
}

// addMessages decodes messages and merges them. It returns the messages that
// can never be applied. An error means that a store which is needed to decide
// does not respond.
func (m *merged) addMessages(ctx context.Context, targets Targets, messages []Message) ([]badMessage, error) {
	var bad []badMessage
	for _, message := range messages {
		raise, err := targets.resolve(ctx, message.Payload)
		switch {
		case err == nil:
			m.add(raise)
		case models.CodeOf(err) == models.CodeUnavailable || ctx.Err() != nil:
			return nil, err
		default:
			bad = append(bad, badMessage{message, err})
		}
	}
	return bad, nil
}

// resolve decodes a payload into the raise that it asks for. CodeUnavailable if
// its bucket or user can't be looked up now; any other error is permanent.
func (t Targets) resolve(ctx context.Context, payload []byte) (models.Raise, error) {
	u, err := DecodeUpdate(payload)
	if err != nil {
		return models.Raise{}, err
	}
	bucket, err := t.Buckets.Load(ctx, u.Board, u.Bucket)
	if errors.Is(err, catalog.ErrNoBucket) {
		return models.Raise{}, fmt.Errorf("no bucket %q of a board %q", u.Bucket, u.Board)
	}
	if err != nil {
		return models.Raise{}, err
	}
	if u.Score > bucket.MaxScore {
		return models.Raise{}, fmt.Errorf("score %d is more than the bucket's largest, %d", u.Score, bucket.MaxScore)
	}
	// After an older database was restored, the queue may name users whom it lacks.
	if known, err := t.Users.Exists(ctx, u.User); err != nil {
		return models.Raise{}, err
	} else if !known {
		return models.Raise{}, errors.New("its user does not exist")
	}
	codec := score.Of(bucket)
	composite, err := codec.Encode(bucket.Points(u.Score), codec.Cut(u.ReachedAt))
	if err != nil {
		return models.Raise{}, err
	}
	return models.Raise{Bucket: bucket, Entry: models.Entry{User: u.User, Composite: composite}}, nil
}

// raise applies the merged updates. After an error, it goes on with those that may not be
// applied. No update may be added afterwards.
func (m *merged) raise(ctx context.Context, entries Entries) error {
	for m.raised < len(m.raises) {
		chunk := m.raises[m.raised:min(m.raised+raiseChunk, len(m.raises))]
		if err := cmp.Or(entries.Raise(ctx, chunk)...); err != nil {
			return err
		}
		m.raised += len(chunk)
	}
	return nil
}
