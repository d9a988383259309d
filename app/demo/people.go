package demo

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/people/friends"
)

const (
	// hourOfWalking is how long an hour of walking takes in the demo.
	hourOfWalking = 5 * time.Minute
	// startHour is the hour of the day at which the demo begins.
	startHour = 8
	// startGap is how many steps somebody is ahead of the first person when the demo
	// begins.
	startGap = 100
	// Up to freshSteps, the score of a day is its steps. Beyond, each step counts
	// for less, so that a demo that runs for hours never reaches mostSteps.
	freshSteps = 40_000
	mostSteps  = 90_000

	// One person's score of the first day is shakenScore: the phone was shaken. Nobody
	// else's ever exceeds demoReviewAbove.
	shakenScore     = 98_800
	demoReviewAbove = 95_000
	// heldScore is what another phone has counted in a car. It is above demoHoldAbove, as nothing else.
	heldScore     = 99_900
	demoHoldAbove = 99_000

	// Each person of the small world knows this many neighbours on either side.
	// Each friendship leads elsewhere with the probability smallWorldRewire.
	smallWorldNeighbours = 10
	smallWorldRewire     = 0.15

	maxPeople = 100_000
	// generatedPatterns is how many walking patterns are generated.
	generatedPatterns = 200
)

// people are the simulated people of a demo.
type people struct {
	ids       []models.UserID
	positions map[models.UserID]int // in ids
	names     []string              // by position in ids
	edges     []friends.Edge        // each friendship once
	// patterns holds the walking patterns that people follow in turn: the sum of
	// steps from the first day's midnight to the end of each hour, beginning with
	// 0, for whole days. At its end a pattern repeats.
	patterns [][]float64
	// headStart is how many steps more than their pattern the first person has on the
	// first day; it may be negative.
	headStart float64
	rng       *rand.Rand
	// base is the address of the demo, for the addresses of covers; empty for no covers.
	base string
	// board is stepsBoard, once the people are stored. walkDay is its current day, and homeDays
	// those in the homeZones.
	board    *catalog.Board
	walkDay  walkDay
	homeDays []walkDay
}

// newPeople returns the people of a demo, from the files that are named and
// generated otherwise.
func newPeople(ctx context.Context, o Options) (*people, error) {
	p := &people{rng: rand.New(rand.NewPCG(o.Seed, o.Seed^0x9e3779b97f4a7c15))}
	if err := p.befriend(ctx, o); err != nil {
		return nil, err
	}
	p.positions = make(map[models.UserID]int, len(p.ids))
	for i, id := range p.ids {
		p.positions[id] = i
	}
	p.names = make([]string, len(p.ids))
	for i := range p.names {
		p.names[i] = givenNames[p.rng.IntN(len(givenNames))] + " " + familyNames[p.rng.IntN(len(familyNames))]
	}
	if o.Steps == "" {
		p.generatePatterns()
	} else if err := readFile(ctx, o.Steps, p.readHours); err != nil {
		return nil, err
	}
	p.startMidTable()
	return p, nil
}

// befriend sets the users and their friendships.
func (p *people) befriend(ctx context.Context, o Options) error {
	if o.Graph != "" {
		return readFile(ctx, o.Graph, p.readGraph)
	}
	if o.Users < 1 || o.Users > maxPeople {
		return fmt.Errorf("--users %d: must be from 1 to %d", o.Users, maxPeople)
	}
	for i := range o.Users {
		p.ids = append(p.ids, idOf(i+1))
	}
	p.smallWorld()
	return nil
}

// smallWorld makes friends of neighbours on a ring and leads some of the
// friendships elsewhere (Watts and Strogatz, "Collective dynamics of
// 'small-world' networks", Nature 393, 1998).
func (p *people) smallWorld() {
	n := len(p.ids)
	edges := newEdgeSet()
	for i := range n {
		for k := 1; k <= smallWorldNeighbours && k < n; k++ {
			j := (i + k) % n
			if p.rng.Float64() < smallWorldRewire {
				j = p.rng.IntN(n)
			}
			edges.add(p.ids[i], p.ids[j])
		}
	}
	p.edges = edges.list
}

// edgeSet holds each friendship once, in the order of adding.
type edgeSet struct {
	list []friends.Edge
	seen map[friends.Edge]bool
}

func newEdgeSet() *edgeSet { return &edgeSet{seen: make(map[friends.Edge]bool)} }

// add adds a friendship, unless it is in the set or with oneself.
func (s *edgeSet) add(a, b models.UserID) {
	e := friends.Edge{A: min(a, b), B: max(a, b)}
	if e.A != e.B && !s.seen[e] {
		s.seen[e] = true
		s.list = append(s.list, e)
	}
}

// generatePatterns generates walking patterns of one day, which differ in how
// much is walked and when.
func (p *people) generatePatterns() {
	for range generatedPatterns {
		daily := 3000 + 9000*p.rng.Float64() + 4000*math.Abs(p.rng.NormFloat64())
		morning, evening := 6+3*p.rng.Float64(), 16+4*p.rng.Float64()
		day := make([]float64, 24)
		var sum float64
		for h := range day {
			day[h] = bell(float64(h), morning, 1.5) + bell(float64(h), 12.5, 1) + 1.5*bell(float64(h), evening, 1.8) + 0.05
			sum += day[h]
		}
		for h := range day {
			day[h] *= daily / sum
		}
		p.addPattern(day)
	}
}

// addPattern adds a walking pattern, given as the steps of each hour.
func (p *people) addPattern(hours []float64) {
	sums := make([]float64, len(hours)+1)
	for h, steps := range hours {
		sums[h+1] = sums[h] + steps
	}
	p.patterns = append(p.patterns, sums)
}

func bell(x, mean, width float64) float64 {
	return math.Exp(-(x - mean) * (x - mean) / (2 * width * width))
}

// profile returns the public profile of a person.
func (p *people) profile(id models.UserID) models.Profile {
	return models.Profile{Nickname: p.names[p.positions[id]], CoverURL: p.coverOf(id)}
}

// idOf returns the user id of the person with a number from 1. As those of real apps,
// ids have several shapes: numbers, UUIDs, and ids of login services.
func idOf(number int) models.UserID {
	hash := sha256.Sum256([]byte(strconv.Itoa(number)))
	digits := hex.EncodeToString(hash[:])
	switch number % 4 {
	case 2:
		return models.UserID(digits[:8] + "-" + digits[8:12] + "-4" + digits[13:16] + "-a" + digits[17:20] + "-" + digits[20:32])
	case 3:
		return models.UserID("auth0|" + digits[:24])
	case 0:
		return models.UserID("o" + base64.RawURLEncoding.EncodeToString(hash[:])[:27])
	default:
		return models.UserID(strconv.Itoa(number))
	}
}

// stepsAfter returns how many steps the person at a position in ids has walked
// in the given number of hours since the first midnight.
func (p *people) stepsAfter(position int, hours float64) float64 {
	sums := p.patterns[position%len(p.patterns)]
	length := len(sums) - 1
	rounds := math.Floor(hours / float64(length))
	rest := hours - rounds*float64(length)
	h := min(int(rest), length-1)
	return rounds*sums[length] + sums[h] + (sums[h+1]-sums[h])*(rest-float64(h))
}

// stepsBetween returns how many steps the person at a position in ids walks between two
// hours of walking. The first day begins at hour 0.
func (p *people) stepsBetween(position int, from, to float64) float64 {
	steps := p.stepsAfter(position, to) - p.stepsAfter(position, from)
	if position == 0 && from == 0 {
		steps += p.headStart
	}
	return steps
}

// startMidTable lets the first person, whom the page shows first, begin in the middle of
// their friends and startGap steps behind one of them, so that somebody is soon
// overtaken. Of the middle third it chooses the friend with most room behind, as nobody
// else should be in between.
func (p *people) startMidTable() {
	var friends []float64 // their steps when the demo begins, ascending
	for _, position := range p.friendsBySteps(0) {
		friends = append(friends, p.stepsBetween(position, 0, startHour))
	}
	if len(friends) < 2 {
		return
	}
	ahead := max(1, len(friends)/3)
	for i := ahead + 1; i < len(friends)*2/3; i++ {
		if friends[i]-friends[i-1] > friends[ahead]-friends[ahead-1] {
			ahead = i
		}
	}
	p.headStart = max(0, friends[ahead]-startGap) - p.stepsAfter(0, startHour)
}

// dailyScore returns the score of a day with the given steps.
func dailyScore(steps float64) int64 {
	if steps > freshSteps {
		const rest = mostSteps - freshSteps
		steps = freshSteps + rest*(1-math.Exp((freshSteps-steps)/rest))
	}
	return int64(steps)
}

// homeZone is how far a person's clock is ahead of UTC.
type homeZone time.Duration

// homeZones are where the people live, in turn.
var homeZones = []homeZone{
	homeZone(8 * time.Hour), 0, homeZone(-5 * time.Hour), homeZone(time.Hour), homeZone(5*time.Hour + 30*time.Minute), homeZone(-8 * time.Hour),
}

// today returns the date on a clock of the zone.
func (z homeZone) today(now time.Time) models.Date {
	return models.DateOf(now.UTC().Add(time.Duration(z)))
}

// homeDay returns the current day at the home of the person at a position in ids.
func (p *people) homeDay(position int) *walkDay { return &p.homeDays[position%len(homeZones)] }

// shaken returns the position of the person whose phone was shaken: none of those whom the
// page offers, nor a friend of the first one. It returns -1 if there are too few people.
func (p *people) shaken() int {
	if len(p.ids) < 4*smallWorldNeighbours {
		return -1
	}
	return len(p.ids) * 7 / 8
}

// walkDay finds which hours of walking belong to the current day of a board or zone.
type walkDay struct {
	start time.Time   // when the demo began
	day   models.Date // the current day
	// The current day's steps lie between these hours of walking. They count from
	// midnight in the board's time zone, or at the person's home.
	began, now float64
}

// advance moves on to now.
func (d *walkDay) advance(now time.Time, today models.Date) {
	d.now = startHour + float64(now.Sub(d.start))/float64(hourOfWalking)
	if today != d.day {
		d.day, d.began = today, d.now
	}
}
