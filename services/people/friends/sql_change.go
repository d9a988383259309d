package friends

import (
	"context"

	"gorm.io/gorm"

	"stepboard/models"
	"stepboard/services/people/cache"
)

// Change is a transaction in which another service changes who is shown whose scores. The
// rows of its users are locked. So friendships that begin or end at the same time are
// complete before it, or begin after it.
type Change struct {
	tx    *tx
	marks *cache.Change[models.RowID]
}

// Change runs fn in a transaction that has locked the users' rows, ascending. The friend
// sets that fn names by Stale are read anew after it. A user's friends can't change while
// the user is locked. CodeUnavailable if the outcome is unknown. It continues if the client
// disconnects.
func (s *Service) Change(ctx context.Context, users []models.RowID, fn func(*Change) error) error {
	return s.changeOf(ctx, s.sets.NewChange(), users, fn)
}

// ChangeMany is Change for a change that affects the sets of up to thousands of users, at a
// tenth of the cost.
func (s *Service) ChangeMany(ctx context.Context, users []models.RowID, fn func(*Change) error) error {
	return s.changeOf(ctx, s.sets.NewBulkChange(), users, fn)
}

func (s *Service) changeOf(
	ctx context.Context, marks *cache.Change[models.RowID], users []models.RowID, fn func(*Change) error,
) error {
	return s.run(ctx, marks, s.store.transact, func(t *tx) error {
		if _, err := t.lock(users...); err != nil {
			return err
		}
		return fn(&Change{tx: t, marks: marks})
	})
}

// DB returns the transaction.
func (c *Change) DB() *gorm.DB { return c.tx.db }

// Stale names users whose friend sets the change affects.
func (c *Change) Stale(users ...models.RowID) { c.tx.changed = append(c.tx.changed, users...) }

// StaleOf names sets of other kinds that the change affects. One round trip to Redis.
func (c *Change) StaleOf(sets ...cache.Set) error {
	return models.Public("change cached sets", c.marks.MarkOf(c.tx.db.Statement.Context, sets))
}

// Friends returns all friends of a user, ordered by row. One query.
func (c *Change) Friends(user models.RowID) ([]models.RowID, error) { return friendIDs(c.tx.db, user) }

// Knows reports whether a user may see the other's profile: the two are friends, or the
// user is shown a request of the other. Two queries.
func (c *Change) Knows(user, other models.RowID) (bool, error) {
	if already, err := c.tx.areFriends(user, other); err != nil || already {
		return already, err
	}
	requests, err := c.tx.relation(user, other)
	return requests.shown, err
}

// Part ends the friendship of a user with the other, renews the user's invitation, and withdraws the user's request. A
// request of the other stays pending for its sender, but the user is not shown it any
// more, as if it was declined.
func (c *Change) Part(user, other models.RowID) error {
	requests, err := c.tx.relation(user, other)
	if err != nil {
		return err
	}
	if requests.sent {
		if err := c.tx.withdraw(user, other); err != nil {
			return err
		}
	}
	if requests.shown {
		if err := c.tx.decline(user, other); err != nil {
			return err
		}
	}
	if err := c.tx.unfriend(user, []models.RowID{other}); err != nil {
		return err
	}
	// The other may know the user's invitation, by which they could come back as somebody new.
	code, err := readCode(c.tx.db, user)
	if err != nil || code == "" {
		return err
	}
	return renewCode(c.tx.db, user)
}
