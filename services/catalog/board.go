// Package catalog knows the boards and their buckets: definitions, what
// differs by kind, the days of a board's zone, and the table board_buckets,
// where a bucket's nature is written down on its first use and never changes.
package catalog

import (
	"fmt"
	"regexp"
	"time"

	"stepboard/models"
	"stepboard/services/score"
)

// MaxShards bounds how many sorted sets one bucket may be split into.
const MaxShards = 1024

// namePattern keeps board names safe in keys, paths and metrics.
var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// Board is a checked definition with its zone loaded.
type Board struct {
	models.Board
	zone     *time.Location
	tick     time.Duration
	timeBits int
}

// NewBoard checks a definition. The error names the setting that is wrong and
// what it may be.
func NewBoard(def models.Board) (*Board, error) {
	if !namePattern.MatchString(def.Name) {
		return nil, fmt.Errorf("board name %q: use 1 to 40 of a-z, 0-9 and -", def.Name)
	}
	fail := func(setting, format string, args ...any) (*Board, error) {
		return nil, fmt.Errorf("board %s: %s: %s", def.Name, setting, fmt.Sprintf(format, args...))
	}
	if def.Kind != models.KindDaily {
		return fail("kind", "%q is not a kind of board; use daily", def.Kind)
	}
	// LoadLocation takes "" and "Local" for zones; neither names one.
	if def.TimeZone == "" || def.TimeZone == "Local" {
		return fail("time_zone", "%q is not an IANA zone, such as Asia/Shanghai", def.TimeZone)
	}
	zone, err := time.LoadLocation(def.TimeZone)
	if err != nil {
		return fail("time_zone", "%q is not an IANA zone, such as Asia/Shanghai", def.TimeZone)
	}
	tick, timeBits, err := score.Fit(dailySpan, def.MaxScore)
	if err != nil {
		return fail("max_score", "%v", err)
	}
	if def.Shards < 1 || def.Shards > MaxShards {
		return fail("shards", "%d is outside 1 … %d", def.Shards, MaxShards)
	}
	if def.Global != models.AudienceUsers && def.Global != models.AudienceService {
		return fail("global", "%q is neither users nor service", def.Global)
	}
	return &Board{Board: def, zone: zone, tick: tick, timeBits: timeBits}, nil
}

// Zone is the zone that fixes the board's days.
func (b *Board) Zone() *time.Location { return b.zone }

// Today is the board's current day.
func (b *Board) Today(now time.Time) models.Date { return dayAt(now, b.zone) }

// Closed reports whether uploads for the day are over, for a day without a
// bucket.
func (b *Board) Closed(d models.Date, now time.Time) bool {
	return !now.Before(startOfDay(d+1+lateDays, b.zone))
}
