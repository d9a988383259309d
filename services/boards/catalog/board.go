package catalog

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"stepboard/internal/reading"
	"stepboard/models"
)

// MaxShards is the largest number of sorted sets that a bucket may be split into.
const MaxShards = 1024

// namePattern limits board names to characters that are safe in keys, paths and
// metrics.
var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// Board is a valid definition with its time zone loaded.
type Board struct {
	models.Board
	kind kind
	// zone fixes the board's days. If local is set, each user's own clock does, and
	// zone is UTC.
	zone     *time.Location
	local    bool
	tick     time.Duration
	timeBits int
	proposed atomic.Pointer[models.Bucket] // the last result of Buckets.propose
	// names has the names of the buckets that existed when reading has read them; nil before.
	names   atomic.Pointer[map[string]bool]
	reading *reading.Shared
}

// NewBoard checks a definition and fills in the defaults of its kind. The error
// names the setting that is wrong and its valid values.
func NewBoard(def models.Board) (*Board, error) {
	if !namePattern.MatchString(def.Name) {
		return nil, fmt.Errorf("board name %q: use 1 to 40 of a-z, 0-9 and -", def.Name)
	}
	fail := func(setting, format string, args ...any) (*Board, error) {
		return nil, fmt.Errorf("board %s: %s: %s", def.Name, setting, fmt.Sprintf(format, args...))
	}
	k, ok := kinds[def.Kind]
	if !ok {
		return fail("kind", "%q is not a kind of board; use daily, event or rolling", def.Kind)
	}
	zone, err := loadZone(def.TimeZone)
	if err != nil {
		return fail("time_zone", "%v", err)
	}
	if def.WindowHours == 0 {
		def.WindowHours = k.defaultWindow()
	}
	def.Takes = cmp.Or(def.Takes, k.takes()[0])
	def.Order = cmp.Or(def.Order, models.OrderHigh)
	def.Uploads = cmp.Or(def.Uploads, models.AudienceUsers)
	if !slices.Contains(k.takes(), def.Takes) {
		return fail("takes", "%q is not what %s boards take; use %v", def.Takes, def.Kind, k.takes())
	}
	tick, timeBits, setting, err := k.validate(def)
	if err != nil {
		return fail(setting, "%v", err)
	}
	switch {
	case def.Shards < 1 || def.Shards > MaxShards:
		return fail("shards", "%d is outside 1 … %d", def.Shards, MaxShards)
	case def.Global != models.AudienceUsers && def.Global != models.AudienceService:
		return fail("global", "%q is neither users nor service", def.Global)
	case def.Uploads != models.AudienceUsers && def.Uploads != models.AudienceService:
		return fail("uploads", "%q is neither users nor service", def.Uploads)
	case def.Order != models.OrderHigh && def.Order != models.OrderLow:
		return fail("order", "%q is neither high nor low", def.Order)
	case def.Order == models.OrderLow && def.ReviewAbove != 0:
		return fail("review_above", "boards that rank the lowest score first have none")
	case def.ReviewAbove < 0 || def.ReviewAbove >= def.MaxScore:
		return fail("review_above", "%d is outside 0 … %d, one less than max_score", def.ReviewAbove, def.MaxScore-1)
	case def.HoldAbove != 0 && (def.Kind != models.KindDaily || def.Order == models.OrderLow):
		return fail("hold_above", "only daily boards that rank the highest score first have it")
	case def.HoldAbove < 0 || def.HoldAbove >= def.MaxScore:
		return fail("hold_above", "%d is outside 0 … %d, one less than max_score", def.HoldAbove, def.MaxScore-1)
	case !validUnit(def.Unit):
		return fail("unit", "%q is not a word of at most %d printable characters, without spaces at its ends", def.Unit, models.MaxUnit)
	}
	return &Board{
		Board: def, kind: k, zone: zone, local: def.TimeZone == models.LocalZone, tick: tick, timeBits: timeBits, reading: reading.New(refreshTimeout),
	}, nil
}

func validUnit(unit string) bool {
	return utf8.ValidString(unit) && utf8.RuneCountInString(unit) <= models.MaxUnit && strings.TrimSpace(unit) == unit &&
		!strings.ContainsFunc(unit, func(r rune) bool { return !unicode.IsPrint(r) })
}

// loadZone returns the time zone of a definition; UTC for LocalZone.
func loadZone(name string) (*time.Location, error) {
	if name == models.LocalZone {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	// LoadLocation accepts "" and "Local", which are not IANA names.
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("%q is neither an IANA zone, such as Asia/Shanghai, nor %q", name, models.LocalZone)
	}
	return zone, nil
}

// Zone returns the time zone of the board's days; UTC if they are each user's own.
func (b *Board) Zone() *time.Location { return b.zone }

// Today returns the board's current day; that of UTC if days are each user's own.
func (b *Board) Today(now time.Time) models.Date { return dayAt(now, b.zone) }

// EarliestToday returns the board's current day; if days are each user's own, the earliest
// date that it is anywhere.
func (b *Board) EarliestToday(now time.Time) models.Date {
	if b.local {
		return models.DateOf(now.UTC().Add(models.FarthestWest))
	}
	return b.Today(now)
}

// TickMS returns the resolution of the time at which a score is reached, in
// milliseconds, in buckets that are made now.
func (b *Board) TickMS() int64 { return b.tick.Milliseconds() }

// Date returns the day that the API names the bucket by, or nil if the board's
// buckets are not days.
func (b *Board) Date(bucket *models.Bucket) *models.Date { return b.kind.dateOf(bucket) }

// Times returns when a current bucket begins and ends for a user: if days are each user's
// own, at the midnights of a clock with the offset, which must be known then.
func (b *Board) Times(current *models.Bucket, offset models.UTCOffset) (starts, ends time.Time) {
	if !b.local {
		return current.StartsAt, current.EndsAt
	}
	return offset.StartOf(current.Day), offset.StartOf(current.Day + 1)
}

// RequireHigh returns nil if the board ranks the highest score first, CodeBoardKind otherwise.
// what says in the plural what other boards have none of.
func (b *Board) RequireHigh(what string) error {
	if b.Order == models.OrderHigh {
		return nil
	}
	return models.Errorf(models.CodeBoardKind, "%s ranks the lowest score first: it has no %s", b.Name, what)
}

// RequireDays returns nil if the board's buckets are days, CodeBoardKind
// otherwise.
func (b *Board) RequireDays() error {
	_, err := b.kind.bucketForDay(b, 0, 0)
	return err
}

// onlyBucket returns the bucket of a board that never has another, and nil for
// boards that have many.
func (b *Board) onlyBucket() *models.Bucket {
	first := b.kind.bucketAt(b, time.Unix(0, 0), 0)
	if b.kind.bucketAt(b, first.EndsAt, 0).Name != first.Name {
		return nil
	}
	return first
}

// newBucket returns a bucket with the fields that do not depend on the kind.
func (b *Board) newBucket(name string) *models.Bucket {
	return &models.Bucket{
		Board:    b.Name,
		Name:     name,
		TickMS:   b.TickMS(),
		TimeBits: b.timeBits,
		MaxScore: b.MaxScore,
		Order:    b.Order,
		Shards:   b.Shards,

		ChangeStream: b.ChangeStream,
	}
}
