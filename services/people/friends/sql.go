package friends

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/lists"
	"stepboard/internal/visible"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// Store keeps the graph in tables users, friendships and friend_requests. Safe
// for concurrent use.
type Store struct {
	db     *gorm.DB
	outbox *outcomes.Outbox // may be nil
}

// NewStore returns a store over the database, which writes the outcomes of friend requests to
// the outbox; nil if nobody hears of them.
func NewStore(db *gorm.DB, outbox *outcomes.Outbox) *Store { return &Store{db: db, outbox: outbox} }

// shown is the condition that a user, its parameter, is shown the scores of the friend of
// a row of friendships.
var shown = visible.ToViewer("friend_id") + " AND " + visible.NotHidden("friend_id")

// Everybody returns a user's friends, ordered by row, and which of them IDs lists: without those
// whom the user has muted, and those who were erased. One query, and none to Redis, whose sets do not
// have those who are not shown. CodeUnavailable if SQL is away.
func (s *Service) Everybody(ctx context.Context, user models.RowID) ([]models.CirclePerson, error) {
	var friends []models.CirclePerson
	err := s.store.db.WithContext(ctx).Raw(`SELECT friend_id AS user, created_at AS since, `+shown+` AS shown
		FROM friendships WHERE user_id = ? AND `+visible.Wanted("friend_id")+` ORDER BY friend_id`, user, user, user).Scan(&friends).Error
	return friends, models.Public("list friends", err)
}

// Since returns the time when two users became friends, which is zero if they are not
// friends, and whether the first one is shown the other's scores. One query.
// CodeUnavailable if SQL is away.
func (s *Service) Since(ctx context.Context, user, other models.RowID) (since time.Time, isShown bool, err error) {
	var rows []struct {
		CreatedAt time.Time
		Shown     bool
	}
	err = s.store.db.WithContext(ctx).Model(&models.Friendship{}).Select("created_at, "+shown+" AS shown", user).
		Where("user_id = ? AND friend_id = ?", user, other).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return time.Time{}, false, models.Public("look up friendship", err)
	}
	return rows[0].CreatedAt, rows[0].Shown, nil
}

// friendIDs returns a user's friends, ordered by id. One query.
func friendIDs(db *gorm.DB, user models.RowID) ([]models.RowID, error) {
	var ids []models.RowID
	err := db.Model(&models.Friendship{}).Where("user_id = ?", user).Order("friend_id").Pluck("friend_id", &ids).Error
	return ids, models.Wrap("read friends", err)
}

// Friend is one entry of a friend list.
type Friend struct {
	Row       models.RowID  `gorm:"column:friend_id"`
	User      models.UserID `gorm:"column:external_id"`
	Nickname  string
	AvatarURL string
	CreatedAt time.Time
}

// Cursor returns the position in a list that is ordered by users.
func (f Friend) Cursor() models.Cursor { return models.Cursor{Row: f.Row} }

// List returns a page of a user's friends, ordered by row, behind the given row. A
// user that does not exist has none. One query.
func (s *Service) List(ctx context.Context, user models.UserID, after models.RowID, limit int) ([]Friend, error) {
	row, err := s.directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return nil, err
	}
	var page []Friend
	err = s.store.db.WithContext(ctx).Raw(`
		SELECT f.friend_id, u.external_id, u.nickname, u.avatar_url, f.created_at
		FROM friendships f JOIN users u ON u.user_id = f.friend_id
		WHERE f.user_id = ? AND f.friend_id > ?
		ORDER BY f.friend_id LIMIT ?`, row, after, limit).Scan(&page).Error
	return page, models.Public("list friends", err)
}

// transact runs one change in a transaction. An error of fn rolls it back.
func (s *Store) transact(ctx context.Context, fn func(*tx) error) error {
	return s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error { return fn(&tx{db: db, outbox: s.outbox}) })
}

// tx is one change in its transaction.
type tx struct {
	db     *gorm.DB
	outbox *outcomes.Outbox
	// conn is the connection of the transaction, set by transactOnConn.
	conn *sql.Conn
	// changed lists the users whose friend lists have changed so far, or were found
	// to have been changed before.
	changed []models.RowID
}

// lockedUser is a user whose row is locked.
type lockedUser struct {
	id      models.UserID
	friends int
	// requestsSent is the number of requests that the user has sent in the day that
	// ends at requestsUntil.
	requestsSent  int
	requestsUntil time.Time
}

// lock locks the users' rows until the change ends. Users without a row are left
// out. It locks them in ascending order, so that concurrent changes do not deadlock.
func (t *tx) lock(users ...models.RowID) (map[models.RowID]lockedUser, error) {
	var rows []models.User
	err := t.db.Select("user_id", "external_id", "friend_count", "requests_sent", "requests_until").
		Where("user_id ?", lists.Is(t.db, users)).Order("user_id").
		Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("lock users: %w", err)
	}
	locked := make(map[models.RowID]lockedUser, len(rows))
	for _, row := range rows {
		user := lockedUser{id: row.User, friends: row.FriendCount, requestsSent: row.RequestsSent}
		if row.RequestsUntil != nil {
			user.requestsUntil = *row.RequestsUntil
		}
		locked[row.Row] = user
	}
	return locked, nil
}

// areFriends reports whether two users are friends.
func (t *tx) areFriends(a, b models.RowID) (bool, error) {
	var n int64
	err := t.db.Model(&models.Friendship{}).Where("user_id = ? AND friend_id = ?", a, b).Count(&n).Error
	return n > 0, models.Wrap("look up friendship", err)
}

// befriend stores both sides of the friendships that are new, and counts them
// for their users, who are locked. It removes the requests between them.
func (t *tx) befriend(edges []models.Edge) error {
	var gained []models.RowID
	err := t.db.Raw(`INSERT INTO friendships (user_id, friend_id, created_at) SELECT given.a, given.b, ? FROM ? WHERE true
		ON CONFLICT DO NOTHING RETURNING user_id`, t.db.NowFunc(), lists.Pairs(t.db, sidesOf(edges))).Scan(&gained).Error
	if err != nil {
		return fmt.Errorf("store friendships: %w", err)
	}
	t.changed = append(t.changed, gained...)
	if _, err := t.count(timesOf(gained, +1)); err != nil {
		return err
	}
	return t.removeAnsweredRequests(gained)
}

// unfriend removes both sides of the friendships between a user and the others,
// and counts them.
func (t *tx) unfriend(user models.RowID, others []models.RowID) error {
	var lost []models.RowID
	list := lists.Is(t.db, others)
	err := t.db.Raw(`DELETE FROM friendships WHERE (user_id = ? AND friend_id ?) OR (friend_id = ? AND user_id ?)
		RETURNING user_id`, user, list, user, list).Scan(&lost).Error
	if err != nil {
		return fmt.Errorf("remove friendships: %w", err)
	}
	t.changed = append(t.changed, lost...)
	_, err = t.count(timesOf(lost, -1))
	return err
}

// count adds numbers to the friend counts of users, and locks them. Each row has a user and a
// number. It leaves out those who would have too many friends, and returns how many it has counted.
func (t *tx) count(gains [][2]int64) (counted int64, err error) {
	if len(gains) == 0 {
		return 0, nil
	}
	result := t.db.Exec(`UPDATE users SET friend_count = friend_count + given.b FROM ?
		WHERE users.user_id = given.a AND friend_count + given.b <= ?`, lists.Pairs(t.db, gains), models.MaxFriends)
	return result.RowsAffected, models.Wrap("count friends", result.Error)
}
