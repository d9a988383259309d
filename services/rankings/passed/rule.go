package passed

import (
	"encoding/json"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

const (
	// mostBehind is how many people behind a user are remembered, the nearest ones.
	mostBehind = 200
	// mostNames is how many people a notice names.
	mostNames = 3
	// pauseBetween is the least time between two notices of a user, and mostADay how many there
	// are on a day where the user is.
	pauseBetween = time.Hour
	mostADay     = 5
	// morning and evening are the hours of the day where the user is between which the user is told.
	morning, evening = 8, 22
)

// seen is what was seen of the rankings of a user, and when the user was told.
type seen struct {
	// Told has the times of the last mostADay notices, in Unix seconds, the oldest first.
	Told []int64 `json:"told,omitempty"`
	// Boards has the last look at each board on which the user had a score.
	Boards map[string]look `json:"boards,omitempty"`
}

// look is what was seen of a user's ranking in a bucket.
type look struct {
	Bucket string           `json:"bucket"`
	Score  models.Composite `json:"score"`
	// Rank is the user's place. As long as somebody is in Behind who is ahead by now, it is the one
	// from before that.
	Rank int `json:"rank"`
	// Behind are those nearest behind the user, at most mostBehind, and those who have passed without
	// a notice so far.
	Behind []models.RowID `json:"behind,omitempty"`
}

// decodeSeen returns what encode has encoded. What can't be read counts as never seen.
func decodeSeen(text string) (s seen, known bool) {
	if text == "" || json.Unmarshal([]byte(text), &s) != nil {
		return seen{}, false
	}
	return s, true
}

// encode returns the text of s. It is not empty: that a user was looked at is remembered as well.
func (s *seen) encode() string {
	text, err := json.Marshal(s)
	if err != nil { // it has numbers and texts only
		panic(err)
	}
	return string(text)
}

// compare compares a standing with the last look. It returns those who were behind and are ahead,
// best first, the look that follows once the user is told of them, and the one that follows
// otherwise, in which they still count as behind. Somebody without a place in one of the two has not
// passed: who has just become a friend, shows scores again, or reports the first score of the day.
//
// A user's own score falls only by a correction or a loss in Redis. Whoever is ahead by that has not
// passed either.
func (l look) compare(bucket string, at ranking.Neighbours) (passed []models.RowID, told, untold look) {
	told = look{
		Bucket: bucket, Score: at.Mine.Composite, Rank: 1 + len(at.Ahead),
		Behind: at.Behind[:min(len(at.Behind), mostBehind)],
	}
	if l.Bucket != bucket || at.Mine.Composite < l.Score {
		return nil, told, told
	}
	for _, user := range at.Ahead {
		if slices.Contains(l.Behind, user) {
			passed = append(passed, user)
		}
	}
	if len(passed) == 0 {
		return nil, told, told
	}
	untold = told
	untold.Rank = l.Rank
	untold.Behind = slices.Concat(passed, told.Behind)
	untold.Behind = untold.Behind[:min(len(untold.Behind), mostBehind)]
	return passed, told, untold
}

// may reports whether the user may be told now, in the time zone where the user is.
func (s *seen) may(now time.Time, zone *time.Location) bool {
	local := now.In(zone)
	if local.Hour() < morning || local.Hour() >= evening {
		return false
	}
	today := 0
	for _, at := range s.Told {
		then := time.Unix(at, 0)
		if now.Sub(then) < pauseBetween {
			return false
		}
		if models.DateOf(then.In(zone)) == models.DateOf(local) {
			today++
		}
	}
	return today < mostADay
}

// tell notes that the user is told now.
func (s *seen) tell(now time.Time) {
	s.Told = append(s.Told, now.Unix())
	s.Told = s.Told[max(0, len(s.Told)-mostADay):]
}

// until returns the moment from which on a notice of now is not sent any more: the evening where the
// user is, or the end of the day that it is about.
func until(now, ends time.Time, zone *time.Location) time.Time {
	local := now.In(zone)
	tonight := time.Date(local.Year(), local.Month(), local.Day(), evening, 0, 0, 0, zone)
	if ends.Before(tonight) {
		return ends
	}
	return tonight
}
