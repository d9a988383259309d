package sessions

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/platform/revoked"
)

// Operator is a user who may ask for tokens of scope admin.
type Operator struct {
	User      models.UserID `gorm:"column:external_id"`
	Nickname  string
	MadeBy    string
	CreatedAt time.Time
}

// Operators returns all operators, the first one first. One query. CodeUnavailable.
func (s *Service) Operators(ctx context.Context) (list []Operator, err error) {
	err = s.o.Store.db.WithContext(ctx).Raw(`SELECT u.external_id, u.nickname, o.made_by, o.created_at FROM operators o
		JOIN users u ON u.user_id = o.user_id ORDER BY o.created_at, o.user_id`).Scan(&list).Error
	return list, models.Public("list operators", err)
}

// AddOperator makes a user who exists an operator. Repeating it changes nothing. CodeUserNotFound, CodeUnavailable. One
// transaction of two statements. In a dry run it changes nothing.
func (s *Service) AddOperator(ctx context.Context, user models.UserID, by string, dryRun bool) error {
	row, err := s.existing(ctx, user)
	if err != nil {
		return err
	}
	if dryRun {
		return nil
	}
	err = s.o.Store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lock(tx, row); err != nil {
			return err
		}
		return addOperator(tx, row, by, s.now())
	})
	return models.Public("make an operator", err)
}

// addOperator makes a user an operator in a transaction.
func addOperator(tx *gorm.DB, user models.RowID, by string, now time.Time) error {
	hash := make([]byte, 32)
	_, _ = rand.Read(hash) // never fails
	err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&models.Operator{User: user, KeyHash: hash, MadeBy: by, CreatedAt: now}).Error
	return models.Wrap("make an operator", err)
}

// errLast is the error about the last operator.
var errLast = models.Errorf(models.CodeLastOperator, "this is the last operator: make another one first")

// RemoveOperator makes a user no operator any more. Repeating it changes nothing. CodeLastOperator if there is no other one,
// CodeUnavailable. One transaction. In a dry run it changes nothing.
func (s *Service) RemoveOperator(ctx context.Context, user models.UserID, dryRun bool) error {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return err
	}
	err = s.o.Store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		all, err := lockOperators(tx)
		if err != nil {
			return err
		}
		if len(all) == 1 && all[0].User == row {
			return errLast
		}
		if dryRun {
			return nil
		}
		_, err = revoked.End(tx, s.now(), "operators", "user_id = ?", row)
		return err
	})
	return models.Public("remove an operator", err)
}

// lockOperators returns all operators but those who are being erased. They stay until the end of the transaction, so that of
// two who leave, or remove each other, one stays.
func lockOperators(tx *gorm.DB) (all []models.Operator, err error) {
	err = tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Where("user_id IN (SELECT user_id FROM users)").Order("user_id").Find(&all).Error
	return all, models.Wrap("lock operators", err)
}

// Leave is Leaves in the transaction that erases a user. Two queries.
func (s *Service) Leave(tx *gorm.DB, user models.UserID) error {
	if _, err := lockOperators(tx); err != nil {
		return err
	}
	return leaves(tx, user)
}

// Leaves returns CodeLastOperator if the last operators are among users who are to be erased, unless it is one who is alone.
// One query.
func (s *Service) Leaves(ctx context.Context, users ...models.UserID) error {
	return models.Public("look up operators", leaves(s.o.Store.db.WithContext(ctx), users...))
}

func leaves(db *gorm.DB, users ...models.UserID) error {
	var last bool
	among := lists.Is(db, users)
	err := db.Raw(`SELECT EXISTS (SELECT 1 FROM operators o JOIN users u ON u.user_id = o.user_id WHERE u.external_id ?)
		AND NOT EXISTS (SELECT 1 FROM operators o JOIN users u ON u.user_id = o.user_id WHERE NOT u.external_id ?)
		AND (SELECT count(*) FROM (SELECT 1 FROM users LIMIT 2) AS two) = 2`, among, among).Scan(&last).Error
	if err == nil && last {
		err = errLast
	}
	return err
}

// CameBy is how somebody has come, and whom they have brought.
type CameBy struct {
	// Known is false for somebody who has not signed up here. Otherwise At is when.
	Known bool
	At    time.Time
	// By is who has invited them, and Group the group by whose invitation; empty for neither, as of cards.
	By    models.UserID
	Name  string
	Group string
	// Brought are those who came by their invitations, directly, the last one first.
	Brought []Brought
}

// Brought is somebody who came by an invitation.
type Brought struct {
	User      models.UserID `gorm:"column:external_id"`
	Nickname  string
	CreatedAt time.Time
}

// CameBy returns who has brought a user, and whom the user has brought. CodeUserNotFound, CodeUnavailable. Two queries.
func (s *Service) CameBy(ctx context.Context, user models.UserID) (CameBy, error) {
	row, err := s.existing(ctx, user)
	if err != nil {
		return CameBy{}, err
	}
	c, err := s.o.Store.cameBy(ctx, row)
	return c, models.Public("look up who brought a user", err)
}

func (s *Store) cameBy(ctx context.Context, row models.RowID) (c CameBy, err error) {
	db := s.db.WithContext(ctx)
	var found []struct {
		CreatedAt               time.Time
		By, Nickname, GroupName string
	}
	err = db.Raw(`SELECT n.created_at, coalesce(u.external_id, '') AS by, coalesce(u.nickname, '') AS nickname, coalesce(g.name, '') AS group_name
		FROM newcomers n LEFT JOIN users u ON u.user_id = n.invited_by LEFT JOIN groups g ON g.group_id = n.group_id
		WHERE n.user_id = ?`, row).Scan(&found).Error
	if err != nil {
		return c, err
	}
	for _, f := range found {
		c = CameBy{Known: true, At: f.CreatedAt, By: models.UserID(f.By), Name: f.Nickname, Group: f.GroupName}
	}
	err = db.Raw(`SELECT u.external_id, u.nickname, n.created_at FROM newcomers n JOIN users u ON u.user_id = n.user_id
		WHERE n.invited_by = ? ORDER BY n.created_at DESC, n.user_id DESC LIMIT 200`, row).Scan(&c.Brought).Error
	return c, err
}

// Branch returns a user and all who came by their invitations, or by those of whom they have brought, the user first.
// CodeUserNotFound, CodeUnavailable. One query.
func (s *Service) Branch(ctx context.Context, user models.UserID) (branch []models.UserID, err error) {
	err = s.o.Store.db.WithContext(ctx).Raw(`WITH RECURSIVE branch (user_id, depth) AS (
			SELECT user_id, 0 FROM users WHERE external_id = ?
			UNION SELECT n.user_id, b.depth + 1 FROM newcomers n JOIN branch b ON n.invited_by = b.user_id WHERE b.depth < 1000)
		SELECT u.external_id FROM branch b JOIN users u ON u.user_id = b.user_id GROUP BY u.external_id ORDER BY min(b.depth), u.external_id`,
		user).Scan(&branch).Error
	if err == nil && len(branch) == 0 {
		err = models.NoUser(user)
	}
	return branch, models.Public("look up whom a user has brought", err)
}

// Named is somebody with a name.
type Named struct {
	User models.UserID `gorm:"column:external_id"`
	// LastSeen is when a device of theirs last asked for a token; nil for never.
	LastSeen *time.Time
}

// Named returns those who have exactly this name, whatever its case, at most 100. One query. CodeUnavailable.
func (s *Service) Named(ctx context.Context, name string) (list []Named, err error) {
	err = s.o.Store.db.WithContext(ctx).Raw(`SELECT u.external_id,
			(SELECT s.last_used_at FROM sessions s WHERE s.user_id = u.user_id ORDER BY s.last_used_at DESC LIMIT 1) AS last_seen
		FROM users u WHERE u.name_key = ? ORDER BY u.user_id LIMIT 100`, models.NameKey(strings.TrimSpace(name))).Scan(&list).Error
	return list, models.Public("find users by name", err)
}
