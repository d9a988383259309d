// Package models holds the types that cross packages: ids, boards, buckets,
// entries, rankings and errors.
package models

import "time"

// Kind says how the scores of a board are made. All rules that depend on it are in
// services/boards/catalog.
type Kind string

// The kinds of board.
const (
	// KindDaily is a board to which clients report their totals of a day. The
	// highest total of the day counts.
	KindDaily Kind = "daily"
	// KindEvent is a board on which increments add up during one fixed period.
	KindEvent Kind = "event"
	// KindRolling is a board on which the increments of the last hours add up.
	KindRolling Kind = "rolling"
)

// Audience says whose tokens may do something with a board: read the lists that show everybody, or
// upload scores.
type Audience string

// The audiences.
const (
	// AudienceUsers means every user.
	AudienceUsers Audience = "users"
	// AudienceService means trusted backends only.
	AudienceService Audience = "service"
)

// Takes says how the increments of a board make up a score.
type Takes string

// What boards take.
const (
	// TakesSum means that increments add up.
	TakesSum Takes = "sum"
	// TakesBest means that the best result counts: on daily boards the highest total of the day.
	TakesBest Takes = "best"
)

// MaxLate is the longest time after an increment of an event occurred that the event may take it.
const MaxLate = 31 * 24 * time.Hour

// DefaultOpenDays and MaxOpenDays are the default and the largest OpenDays of a
// daily board.
const (
	DefaultOpenDays = 2
	MaxOpenDays     = 30
)

// MaxUnit is how many characters a board's unit may have.
const MaxUnit = 20

// Board is the definition of a board. It applies to buckets that are made from now
// on, and unless a field says so, existing ones do not change.
type Board struct {
	Name string `gorm:"primaryKey"`
	Kind Kind
	// TimeZone is the IANA name of the zone that fixes the board's days, or LocalZone.
	TimeZone string
	// StartsAt and EndsAt bound an event: [StartsAt, EndsAt). They are nil for
	// other kinds.
	StartsAt *time.Time
	EndsAt   *time.Time
	// Takes says how increments make up a score. Empty stands for TakesBest on daily boards, which
	// take nothing else, and otherwise for TakesSum; only events may take the best.
	Takes Takes
	// Late is how long after it occurred an event takes an increment, and after its end; 0 to
	// MaxLate, in whole milliseconds.
	Late time.Duration
	// LatestEnd is up to when an event's end can be moved at least, or nil.
	LatestEnd *time.Time
	// WindowHours is how many hours count on a rolling board, the current one
	// included; 0 for other kinds.
	WindowHours int
	// OpenDays is how many days before today take uploads on a daily board, 0 to
	// MaxOpenDays; 0 for other kinds.
	OpenDays int
	// MaxScore is the largest accepted score, 1 or more.
	MaxScore int64
	// Order says which scores rank first. It never changes.
	Order Order `gorm:"column:score_order"`
	// Shards is the number of sorted sets that a bucket is split into.
	Shards int
	// Global says who may read `top` and `around`.
	Global Audience
	// Uploads says whose tokens may upload scores to a daily board; other boards have AudienceUsers.
	// Empty stands for AudienceUsers. It also applies to existing buckets.
	Uploads Audience
	// ChangeStream says that the changes of new buckets are written to change
	// streams. Rolling boards have none.
	ChangeStream bool
	// ReviewAbove is the score above which operators want to look at a score, below
	// MaxScore; 0 for none. It also applies to existing buckets.
	ReviewAbove int64
	// HoldAbove is the total above which uploads are held until an operator has released them, below
	// MaxScore; 0 for none. Only daily boards that rank the highest first may have it. It also applies
	// to existing buckets.
	HoldAbove int64
	// Unit is what the scores count, a word for people such as "steps", of at most MaxUnit
	// printable characters; empty for nothing. It also applies to existing buckets.
	Unit string
	// FromSettings reports whether the settings have ever named the board. It is false for
	// boards that were only defined while the service ran.
	FromSettings bool
	CreatedAt    time.Time
}

// TableName returns the name of the table of definitions.
func (Board) TableName() string { return "boards" }

// Bucket is one period of a board, with everything that is needed to read and write
// its scores. It is made on its first use, stored in board_buckets, and never
// changes, so its scores stay readable when the definition changes. Only the end of an event
// moves, to a later time, with ClosesAt, ColdAt and Day; and it becomes final.
type Bucket struct {
	Board string `gorm:"primaryKey"`
	// Name identifies the bucket on its board: 20261120 for a day, "event" for an
	// event, "live" for a rolling board.
	Name string `gorm:"primaryKey;column:bucket"`
	// StartsAt and EndsAt bound the bucket: [StartsAt, EndsAt). The days of a board
	// with LocalZone overlap: each lasts from its beginning at FarthestEast to its
	// end at FarthestWest.
	StartsAt time.Time
	EndsAt   time.Time
	// ClosesAt is when the bucket stops accepting updates: EndsAt plus the time
	// for late uploads, or for increments that say when they occurred.
	ClosesAt time.Time
	// FinalAt is when an event that had closed stopped counting increments. It is nil until then,
	// and for other buckets.
	FinalAt *time.Time
	// TickMS is the resolution of the time at which a score was reached, in
	// milliseconds: 1, 1,000, 60,000 or 3,600,000.
	TickMS int64
	// TimeBits is the number of bits that this time takes in a composite: 1 to 52.
	TimeBits int
	// MaxScore is the largest score that the bucket accepts.
	MaxScore int64
	// Order says which scores rank first.
	Order Order `gorm:"column:score_order"`
	// Shards is the number of sorted sets that hold the bucket.
	Shards int
	// WindowHours is 0 or the number of hours, the current one included, whose
	// totals add up to a user's score. Such a bucket is raised with the total of
	// one hour: the one in which it was reached.
	WindowHours int
	// Best reports whether the best increment of a user counts, instead of the sum. False for daily
	// boards, which have no increments.
	Best bool
	// FromLedger reports whether the scores are the running totals of the ledger.
	// Redis then holds a copy, and nothing of it has to be kept for the archive.
	FromLedger bool
	// ChangeStream reports whether every change of the bucket in Redis is written to
	// the change stream of its shard as well, so that processes can keep a copy.
	ChangeStream bool
	// Day is the day under which the archive files the bucket.
	Day Date
	// ColdAt is when the bucket becomes the archive's. Updates that are applied
	// later are stored apart until the archive merges them. The archive waits for
	// another hour, so that clocks need not agree.
	ColdAt    time.Time
	CreatedAt time.Time
}

// TableName returns the name of the table of buckets.
func (Bucket) TableName() string { return "board_buckets" }

// Shard returns the shard of the bucket that holds the user: 0 … Shards-1.
func (b *Bucket) Shard(user RowID) int { return int(int64(user) % int64(b.Shards)) }

// Open reports whether the bucket accepts updates at the given moment.
func (b *Bucket) Open(now time.Time) bool {
	return !now.Before(b.StartsAt) && now.Before(b.ClosesAt)
}

// Cold reports whether the bucket is the archive's at the given moment: archived,
// or due to be.
func (b *Bucket) Cold(now time.Time) bool { return !now.Before(b.ColdAt) }

// Event reports whether the bucket is an event's.
func (b *Bucket) Event() bool { return b.FromLedger && b.WindowHours == 0 }

// Final reports whether the bucket takes no more updates at the given moment. An event is final
// from FinalAt on, not by the clock: an increment that was accepted before the end may be counted
// later.
func (b *Bucket) Final(now time.Time) bool {
	if b.Event() {
		return b.FinalAt != nil
	}
	return !now.Before(b.ClosesAt)
}

// ArchiveState is the state of one run of an archival.
type ArchiveState string

// The states of a run.
const (
	// ArchiveRunning is a run under way, or one whose process has died. The next
	// process resumes it.
	ArchiveRunning ArchiveState = "running"
	// ArchiveFailed is a run that ended with an error. The next one resumes it.
	ArchiveFailed ArchiveState = "failed"
	// ArchiveComplete is a run whose entries are in the archive and verified.
	ArchiveComplete ArchiveState = "complete"
)

// ArchiveRun is one run of a bucket's archival. Run 1 moves the bucket. Later runs
// merge entries that came after it.
type ArchiveRun struct {
	// ID orders runs by their first start.
	ID     int64
	Board  string
	Bucket string
	Run    int
	Shards int
	State  ArchiveState
	// Attempts is how often the run was started.
	Attempts int
	// Moved is the number of entries that were read from Redis so far.
	Moved int64
	// Entries, PointsSum and Hash describe the whole bucket in the archive after the
	// run. They are 0 until it is complete.
	Entries    int64
	PointsSum  Points `gorm:"column:score_sum"`
	Hash       int64
	StartedAt  time.Time
	FinishedAt *time.Time
	// Error is the reason why the run failed; empty in other states.
	Error string
}

// TableName returns the name of the table of runs.
func (ArchiveRun) TableName() string { return "board_archives" }

// Cursor returns the position in a list that is ordered by id.
func (a ArchiveRun) Cursor() Cursor { return Cursor{Key: a.ID} }
