package friends

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"stepboard/internal/dialect"
	"stepboard/internal/lists"
	"stepboard/internal/visible"
	"stepboard/models"
)

// store stores sides of friendships. errLockFirst if one exists.
func (t *tx) store(sides [][2]int64) (err error) {
	if dialect.Postgres(t.db) {
		err = t.copy(sides)
	} else {
		err = t.db.Exec(`INSERT INTO friendships (user_id, friend_id, created_at) SELECT given.a, given.b, ? FROM ?`,
			t.db.NowFunc(), lists.Pairs(t.db, sides)).Error
	}
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return errLockFirst
	}
	return models.Wrap("store friendships", err)
}

// shownIDsOf returns for each of some users those of their friends whose scores they are shown,
// in no particular order; users without any may be left out. One query.
func (s *Store) shownIDsOf(ctx context.Context, users []models.RowID) (ids map[models.RowID][]models.RowID, err error) {
	if dialect.Postgres(s.db) {
		ids, err = s.shownArrays(ctx, users)
	} else {
		ids, err = s.shownPairs(ctx, users)
	}
	return ids, models.Wrap("read friends", err)
}

// shownArrays is shownIDsOf on Postgres, which answers a row for each user, in binary form.
func (s *Store) shownArrays(ctx context.Context, users []models.RowID) (map[models.RowID][]models.RowID, error) {
	db, err := s.db.DB()
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ids := make(map[models.RowID][]models.RowID, len(users))
	err = conn.Raw(func(driver any) error {
		rows, err := driver.(*stdlib.Conn).Conn().Query(ctx, `
			SELECT u.id, ARRAY(
				SELECT f.friend_id FROM friendships f WHERE f.user_id = u.id
					AND f.friend_id <> ALL (ARRAY(SELECT n.user_id FROM not_shown n WHERE n.viewer_id = u.id))
					AND `+visible.NotHidden("f.friend_id")+`)
			FROM unnest($1::bigint[]) AS u (id)`, users)
		if err != nil {
			return err
		}
		var (
			user    models.RowID
			friends []models.RowID
		)
		_, err = pgx.ForEachRow(rows, []any{&user, &friends}, func() error {
			ids[user], friends = friends, nil
			return nil
		})
		return err
	})
	return ids, err
}

// shownPairs is shownIDsOf on SQLite, which has no arrays. It reads the view once, and of table users
// only the index of those who hide, which is small: SQLite would read the row of each friend.
func (s *Store) shownPairs(ctx context.Context, users []models.RowID) (map[models.RowID][]models.RowID, error) {
	list := lists.Is(s.db, users)
	return lists.Grouped[models.RowID, models.RowID](s.db.WithContext(ctx), `
		SELECT f.user_id, f.friend_id FROM friendships f WHERE f.user_id ?
			AND (f.user_id, f.friend_id) NOT IN (SELECT n.viewer_id, n.user_id FROM not_shown n WHERE n.viewer_id ?)
			AND (SELECT h.user_id FROM users h INDEXED BY users_hidden WHERE h.user_id = f.friend_id AND h.hidden) IS NULL`, list, list)
}
