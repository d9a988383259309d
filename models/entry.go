package models

import (
	"cmp"
	"time"
)

// Composite packs a score and the time at which it was reached into one whole
// number below 2^53. A larger composite ranks before a smaller one; 0 means no
// score. services/boards/score encodes and decodes it.
type Composite int64

// Entry is a user's score in a bucket.
type Entry struct {
	User      RowID
	Composite Composite
}

// Compare returns a negative number if e ranks before other, a positive one if it
// ranks after it, and 0 for the same entry. Every store and every response uses this
// order: the larger composite first; on equal composites the row id as decimal
// text, bytewise descending.
func (e Entry) Compare(other Entry) int {
	if c := cmp.Compare(other.Composite, e.Composite); c != 0 {
		return c
	}
	return other.User.CompareText(e.User)
}

// Before reports whether e ranks before other. It is Compare in a form that the compiler inlines.
func (e Entry) Before(other Entry) bool {
	return e.Composite > other.Composite || e.Composite == other.Composite && e.User.CompareText(other.User) > 0
}

// EntryKey says which of the keys with entries of a shard of a bucket is meant.
type EntryKey string

// The keys with entries of a shard.
const (
	// KeyBoard is what readers see.
	KeyBoard EntryKey = ""
	// KeyLate holds updates that were applied after the bucket had turned cold.
	KeyLate EntryKey = "late"
	// KeyReported holds updates of users while a correction of their scores holds.
	KeyReported EntryKey = "reported"
)

// EntryKeys returns all keys with entries of a shard.
func EntryKeys() []EntryKey { return []EntryKey{KeyBoard, KeyLate, KeyReported} }

// Raise is one update of a bucket: it sets the user's composite unless the stored
// one is larger. Raises may be repeated and applied in any order.
type Raise struct {
	Bucket *Bucket
	Entry
}

// CorrectedEntry is what a correction makes of a user's entry in a bucket in Redis.
type CorrectedEntry struct {
	Bucket *Bucket
	User   RowID
	// Composite is the entry that the correction puts on the board; 0 for an excluded
	// user.
	Composite Composite
	// Before is the entry that the user had when the correction was made, or 0. The user
	// has reported this or more.
	Before Composite
	// Lifted reports that the correction holds no more, so that what was reported counts.
	Lifted bool
}

// Lowering replaces an entry of a BoardPart by a smaller one, or removes it.
type Lowering struct {
	// Stored is the entry that is replaced. If the part has another composite of the
	// user by now, nothing changes.
	Stored Entry
	// Composite is the one that replaces it; 0 removes the entry.
	Composite Composite
}

// BoardPart is the part of a bucket of the ledger that holds one running total of
// each user of a shard.
type BoardPart struct {
	Bucket *Bucket
	Shard  int
	// Hour is the hour of the totals in a rolling bucket, otherwise 0.
	Hour Hour
}

// Total returns the name of the running totals.
func (p BoardPart) Total() string {
	if p.Bucket.WindowHours > 0 {
		return p.Hour.String()
	}
	return p.Bucket.Name
}

// FrozenPart is a part of a bucket that an archival run has set apart, so that no
// update changes it any more.
type FrozenPart struct {
	Shard int
	Run   int
	// Of is the key that was frozen.
	Of EntryKey
	// Entries is the number of entries in it.
	Entries int64
}

// Order says which scores of a board rank first.
type Order string

// The orders.
const (
	// OrderHigh ranks the highest score first.
	OrderHigh Order = "high"
	// OrderLow ranks the lowest score first, such as the fastest lap.
	OrderLow Order = "low"
)

// Points is what composites and every store hold of a score, so that more points always rank first. On
// a bucket with OrderHigh they are the score, on one with OrderLow its MaxScore less the score. Only
// Bucket.Points and Bucket.Score convert between the two: where scores come in, and where they go out.
type Points int64

// Points returns the points of a score from 0 to MaxScore.
func (b *Bucket) Points(score int64) Points {
	if b.Order == OrderLow {
		score = b.MaxScore - score
	}
	return Points(score)
}

// Score is the inverse of Points.
func (b *Bucket) Score(points Points) int64 {
	if b.Order == OrderLow {
		return b.MaxScore - int64(points)
	}
	return int64(points)
}

// ScoreSum returns the sum of n scores whose points add up to sum.
func (b *Bucket) ScoreSum(n int64, sum Points) int64 {
	if b.Order == OrderLow {
		return n*b.MaxScore - int64(sum)
	}
	return int64(sum)
}

// Sum is the sum of the scores of a user's days, on a board that ranks the highest score first. The
// zero Sum has no days.
type Sum struct {
	Score int64
	// Days is the number of days with a score.
	Days int64
	// ReachedAt is when the sum was reached: the latest time at which a day above 0
	// reached its score. If all days are 0, it is the earliest time of a day.
	ReachedAt Timestamp
}

// Plus returns the sum of both.
func (s Sum) Plus(other Sum) Sum {
	sum := Sum{Score: s.Score + other.Score, Days: s.Days + other.Days}
	switch {
	case other.Days == 0 || other.Score == 0 && s.Score > 0:
		sum.ReachedAt = s.ReachedAt
	case s.Days == 0 || s.Score == 0 && other.Score > 0:
		sum.ReachedAt = other.ReachedAt
	case sum.Score == 0:
		sum.ReachedAt = min(s.ReachedAt, other.ReachedAt)
	default:
		sum.ReachedAt = max(s.ReachedAt, other.ReachedAt)
	}
	return sum
}

// SumEntry is a user's sum in a ranking of sums.
type SumEntry struct {
	User RowID
	Sum
}

// Position returns the position of e, for a cursor.
func (e SumEntry) Position() Cursor { return Cursor{Key: e.Score, Row: e.User, At: e.ReachedAt} }

// ComparePosition is Compare with the entry at a position.
func (e SumEntry) ComparePosition(c Cursor) int {
	return e.Compare(SumEntry{User: c.Row, Sum: Sum{Score: c.Key, ReachedAt: c.At}})
}

// Compare returns a negative number if e ranks before other, a positive one if it ranks
// after it, and 0 for the same position: the higher sum first, then the one that was
// reached earlier, then as Entry.Compare.
func (e SumEntry) Compare(other SumEntry) int {
	return cmp.Or(
		cmp.Compare(other.Score, e.Score),
		cmp.Compare(e.ReachedAt, other.ReachedAt),
		other.User.CompareText(e.User),
	)
}

// ScoreEvent is an increment that was counted. Its key is the board and the event
// id, so that the same id counts once.
type ScoreEvent struct {
	Board   string `gorm:"primaryKey"`
	EventID string `gorm:"primaryKey"`
	// Total names the running total that it was added to: "event" on an event
	// board, an hour such as 2026112013 on a rolling board.
	Total string
	User  RowID `gorm:"column:user_id"`
	// Delta is what it adds or, where the best counts, its result; in points, as scores are here.
	Delta int64
	// AcceptedAt is the server's time when it was accepted.
	AcceptedAt time.Time
	// Score and ReachedAt are those of the first response: the score that the
	// increment led to, and when.
	Score     int64
	ReachedAt time.Time
}

// TableName returns the name of the table of increments.
func (ScoreEvent) TableName() string { return "score_events" }

// ScoreTotal is a user's running total: the sum of the increments that were
// added to it, or the best of them.
type ScoreTotal struct {
	Board string `gorm:"primaryKey"`
	User  RowID  `gorm:"primaryKey;column:user_id"`
	// Total identifies the total among those of the user on the board; see
	// ScoreEvent.Total. On a rolling board the bucket's name identifies the sum of
	// all increments.
	Total string `gorm:"primaryKey"`
	Score int64
	// ReachedAt is when the latest increment above 0 occurred; if all are 0, the earliest. Where the
	// best counts, it is when that was reached first.
	ReachedAt time.Time
}

// TableName returns the name of the table of running totals.
func (ScoreTotal) TableName() string { return "score_totals" }

// TotalRange is a range of running totals of each user of a bucket: the totals
// that make up a score.
type TotalRange struct {
	// Bucket is the bucket that the totals raise.
	Bucket *Bucket
	// Total names the last total of the range. Increments are added to it.
	Total string
	// Since names the first total of the range: the first hour of a rolling board's
	// window. On an event board it equals Total.
	Since string
}
