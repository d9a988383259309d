// Package catalog holds the boards and their buckets: the definitions of boards, the rules that
// differ by kind of board, the days of a board's time zone, and the table board_buckets.
//
// # Buckets
//
// The parameters of a bucket (start, end, closing time, tick, bits of time, largest score,
// shards) are written to board_buckets on its first use. All reads and writes follow that row and
// not today's settings: with another time zone yesterday's
// composites would otherwise be decoded into other times, and with another number of shards
// looked up in the wrong sets. Settings take effect with the next bucket. If several processes
// make a bucket at once, all read back the row that was inserted first. Rows never change and stay
// in memory for good, except those of events.
//
// The end of an event may move to a later time, and with it closes_at, cold_at and day, as long as
// its composites can hold the time. Buckets.Finish sets final_at once the event has closed, and
// from then on the row never changes. It locks the row FOR UPDATE, transactions that count
// increments FOR KEY SHARE, and everybody else FOR NO KEY UPDATE. If those that count locked it FOR SHARE, corrections, the
// archive and moved ends would wait for a gap between flushes.
//
// The definitions are read again every few seconds (RefreshEvery). The current bucket is made then, and in
// the time before it begins (prepareAhead) the next one, so that a Postgres that is away at midnight stops
// no upload. Earlier days that still take uploads are looked up ahead but not made, so that days
// without reports leave no rows. Calls about days without a bucket cost few queries:
// Buckets.Existing.
//
// # Kinds
//
//	kind     buckets                 filled by                             fixed by
//	daily    20261120, one a day     totals that clients report            each day's row
//	event    event, the only one     increments, from its start to end     the row, made up to prepareAhead before
//	rolling  live, the only one      increments of the last window hours   the row, made at once
//
// A kind is a type in daily.go, event.go or rolling.go; no other package asks for the kind. A
// board with a single bucket never makes another, so serve refuses settings that would change an
// event or rolling board under way.
//
// # Days
//
// A day belongs to a zone and does not always have 24 hours: days.go handles days of 23 and 25
// hours, clock changes at midnight, and days that a zone skips.
//
// With time_zone: local a day is a date on each user's own calendar. Its bucket lasts 50 hours,
// from the date's beginning at UTC+14 to its end at UTC-12, so two or three buckets are in
// progress at a time. open_days and hot_days count from the end at UTC-12. Where a client names
// no date, it follows from the offset of the user's clock (models.UTCOffset). No other package
// has a rule for local days: schedules use UTC, and an import reads dates as they are and hours
// as those of UTC.
package catalog
