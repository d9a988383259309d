package models

import "cmp"

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
