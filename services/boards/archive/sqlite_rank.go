package archive

import (
	"cmp"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// rank ranks the rows, a window at a time, and returns what they must be then. It reads all rows
// once for each window. Before, it compares them with what was written.
func (b *build) rank() (ranked totals, err error) {
	for last := board.Top; ; {
		window, read, err := b.nextWindow(last)
		if err != nil {
			return ranked, err
		}
		if read != b.written {
			return ranked, fmt.Errorf("%w: read %v; the archive would hold %v", ErrVerification, b.written, read)
		}
		first := ranked.rows + 1
		for i, e := range window {
			ranked.add(rowOf(b.codec, e, first+int64(i)))
		}
		if err := b.writeRanks(window, first); err != nil {
			return ranked, err
		}
		if len(window) < b.sizes.window {
			return ranked, nil
		}
		last = window[len(window)-1]
	}
}

// nextWindow returns the entries that follow one, up to a window, and what all rows are without
// ranks.
func (b *build) nextWindow(last models.Entry) (window []models.Entry, read totals, err error) {
	var cut *models.Entry // the last entry of a full window
	err = b.eachRow(func(e models.Entry, _ int64) {
		read.add(rowOf(b.codec, e, 0))
		if e.Compare(last) <= 0 || cut != nil && e.Compare(*cut) > 0 {
			return
		}
		if window = append(window, e); len(window) == 2*b.sizes.window {
			window = b.fitWindow(window)
			cut = &window[b.sizes.window-1]
		}
	})
	return b.fitWindow(window), read, err
}

// fitWindow returns the first entries, up to a window, in the order of ranks.
func (b *build) fitWindow(window []models.Entry) []models.Entry {
	slices.SortFunc(window, models.Entry.Compare)
	return window[:min(len(window), b.sizes.window)]
}

// eachRow calls do with each row of the version and its rank, in the order of users.
func (b *build) eachRow(do func(e models.Entry, rank int64)) error {
	return b.pages(`SELECT user_id, composite, rank FROM archived_scores WHERE version = ? AND user_id > ? ORDER BY user_id LIMIT ?`,
		func(r [3]int64) { do(models.Entry{User: models.RowID(r[0]), Composite: models.Composite(r[1])}, r[2]) })
}

// pages calls do with each row of the version that a query selects, by its first column, a page at a
// time. No query is under way meanwhile.
func (b *build) pages(query string, do func(row [3]int64)) error {
	var r [3]int64
	page := make([][3]int64, 0, b.sizes.page)
	for {
		page = page[:0]
		err := lists.Each(b.db.WithContext(b.ctx).Raw(query, b.version, r[0], b.sizes.page), []any{&r[0], &r[1], &r[2]}, func() error {
			page = append(page, r)
			return nil
		})
		if err != nil {
			return err
		}
		for _, row := range page {
			do(row)
		}
		if len(page) < b.sizes.page {
			return nil
		}
	}
}

// writeRanks writes the ranks of a window whose first entry has the given one: in each transaction
// some ranks that follow each other, and those of some users who follow each other.
func (b *build) writeRanks(window []models.Entry, first int64) error {
	byRank := make([][2]int64, len(window))
	for i, e := range window {
		byRank[i] = [2]int64{first + int64(i), int64(e.User)}
	}
	byUser := column.Of(byRank, func(r [2]int64) [2]int64 { return [2]int64{r[1], r[0]} })
	slices.SortFunc(byUser, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	for from := 0; from < len(window); from += b.sizes.chunk {
		to := min(from+b.sizes.chunk, len(window))
		err := b.write(b.ctx, b.version, func(tx *gorm.DB) error {
			err := tx.Exec(`INSERT INTO archived_ranks (version, rank, user_id) SELECT ?, a, b FROM ?`,
				b.version, lists.Pairs(tx, byRank[from:to])).Error
			if err != nil {
				return err
			}
			return setRanks(tx, b.version, byUser[from:to])
		})
		if err != nil {
			return err
		}
		failpoint.Hit("archive_version.chunk_ranked")
	}
	return nil
}

// setRanks sets the ranks of users in a version. If the list were not materialized, SQLite would
// read all of it for each row of the version.
func setRanks(tx *gorm.DB, version int64, users [][2]int64) error {
	return tx.Exec(`WITH list AS MATERIALIZED (SELECT a, b FROM ?)
		UPDATE archived_scores SET rank = list.b FROM list WHERE version = ? AND user_id = list.a`, lists.Pairs(tx, users), version).Error
}

// verify reads the rows and the ranks, and returns what the rows are. An error if they are not what
// was ranked.
func (b *build) verify(ranked totals) (stored totals, err error) {
	var users, ranks totals // both of what archived_ranks has
	err = b.eachRow(func(e models.Entry, rank int64) {
		stored.add(rowOf(b.codec, e, rank))
		users.add(row{rank: rank, user: e.User})
	})
	if err != nil {
		return stored, err
	}
	err = b.pages(`SELECT rank, user_id, 0 FROM archived_ranks WHERE version = ? AND rank > ? ORDER BY rank LIMIT ?`,
		func(r [3]int64) { ranks.add(row{rank: r[0], user: models.RowID(r[1])}) })
	if err == nil && (stored != ranked || ranks != users) {
		err = fmt.Errorf("%w: read %v; the archive would hold %v, and %d ranks", ErrVerification, ranked, stored, ranks.rows)
	}
	return stored, err
}
