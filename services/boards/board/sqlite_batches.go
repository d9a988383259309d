package board

import (
	"context"
	"sync"

	"gorm.io/gorm"

	"stepboard/internal/column"
	"stepboard/internal/lists"
	"stepboard/models"
)

// A batch of a thousand users of a large board is on nearly as many pages of hot_scores, and the
// write-ahead log gets each page that changes as a whole. So a batch is first stored as one row of
// hot_batches, which takes a few pages. Once very many raises wait there they are moved in the order
// of hot_scores, when many of them are on each page: some with each further batch, in its transaction,
// so that nobody waits for all. It may be repeated, as raises may. Erased users are left out then.

const (
	// batchFrom is how many raises are stored as a batch.
	batchFrom = 100
	// moveFrom is how many raises wait before they are moved. They take about 5 MB of memory meanwhile.
	moveFrom = 100_000
	// moveEach is how many are moved for each one that is stored: more than come.
	moveEach = 2
	// moveChunk is how many settle moves in one transaction, some milliseconds.
	moveChunk = 1000
)

// hotBatches is what HotScores knows of table hot_batches.
type hotBatches struct {
	moveFrom int

	mu sync.Mutex
	// waiting is how many raises were stored since collect.
	waiting int
	// moving is sorted, and what is left of the batches up to number upto.
	moving []hotEntry
	upto   int64
}

// add stores entries, which are sorted, as batches, and moves some that wait. One transaction of a
// statement for each bucket, and sometimes a query before.
func (h *HotScores) add(ctx context.Context, entries []hotEntry) error {
	b := &h.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.moving) == 0 && b.waiting >= b.moveFrom {
		if err := h.collect(ctx); err != nil {
			return err
		}
	}
	n := min(moveEach*len(entries), len(b.moving))
	err := h.transact(ctx, func(tx *gorm.DB) error {
		err := eachBucket(entries, func(bucket bucketKey, entries []hotEntry) error {
			raised := column.Of(entries, func(e hotEntry) models.Entry { return e.Entry })
			return tx.Exec(`INSERT INTO hot_batches (board, raises) VALUES (?, ?)`, bucket.board, encodeRaised(bucket.name, raised)).Error
		})
		if err != nil {
			return err
		}
		return b.move(tx, n)
	})
	if err == nil {
		b.moving, b.waiting = b.moving[n:], b.waiting+len(entries)
	}
	return err
}

// collect reads all batches, to be moved. Nothing may be left of those before. One query.
func (h *HotScores) collect(ctx context.Context) error {
	b := &h.batches
	var (
		entries    []hotEntry
		id         int64
		board, row string
	)
	err := lists.Each(h.db.WithContext(ctx).Raw(`SELECT id, board, raises FROM hot_batches ORDER BY id`), []any{&id, &board, &row}, func() error {
		batch, err := decodeChange(row)
		for _, e := range batch.Raised {
			entries = append(entries, hotEntry{bucketKey{board, batch.Bucket}, e})
		}
		return err
	})
	if err == nil {
		b.moving, b.upto, b.waiting = sorted(entries), id, 0
	}
	return models.Wrap("read batches", err)
}

// move moves the first entries of moving, and removes the batches with the last ones.
func (b *hotBatches) move(tx *gorm.DB, n int) error {
	if n == 0 {
		return nil
	}
	if err := raiseIn(tx, b.moving[:n]); err != nil || n < len(b.moving) {
		return err
	}
	return tx.Exec(`DELETE FROM hot_batches WHERE id <= ?`, b.upto).Error
}

// settle moves all batches that were stored before it is called. A query if there are none.
func (h *HotScores) settle(ctx context.Context) error {
	for collected := false; ; {
		more, err := h.settleSome(ctx, &collected)
		if err != nil || !more {
			return models.Wrap("move batches", err)
		}
	}
}

// settleSome moves some, and reports whether there may be more.
func (h *HotScores) settleSome(ctx context.Context, collected *bool) (more bool, err error) {
	b := &h.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.moving) == 0 {
		if *collected {
			return false, nil
		}
		*collected = true
		if err := h.collect(ctx); err != nil || len(b.moving) == 0 {
			return false, err
		}
	}
	n := min(moveChunk, len(b.moving))
	err = h.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return b.move(tx, n) })
	if err == nil {
		b.moving = b.moving[n:]
	}
	return err == nil, err
}
