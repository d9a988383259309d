package models

import "time"

// Cursor is a position in an ordered list: the sort key of the last entry that
// a page showed, and its user. The key is a composite in rankings, a sum in rankings of
// sums, a time in lists of requests, an id in lists of operators. services/platform/cursor makes
// the text that clients get.
type Cursor struct {
	Key int64
	Row RowID
	// At is when a sum was reached; 0 in other lists.
	At Timestamp
}

// Before returns the time of a position in a list that is ordered by time, the newest first; a time after all others for
// the zero Cursor.
func (c Cursor) Before() time.Time {
	if c.Key == 0 {
		return time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	}
	return time.UnixMicro(c.Key).UTC()
}
