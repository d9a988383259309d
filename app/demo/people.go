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

	// Those below are set once the people are stored. rows is by position in ids, and board is
	// stepsBoard. walkDay is its current day, and homeDays those of homeZones.
	rows     []models.RowID
	board    *catalog.Board
	walkDay  walkDay
	homeDays [len(homeZones)]walkDay
}

// newPeople returns the people of a demo, from the files that are named and
// generated otherwise.
func newPeople(ctx context.Context, o Options) (*people, error) {
	p := &people{rng: rand.New(rand.NewPCG(o.Seed, o.Seed^0x9e3779b97f4a7c15))}
	switch {
	case o.Graph != "":
		if err := readFile(ctx, o.Graph, p.readGraph); err != nil {
			return nil, err
		}
	case o.Users < 1 || o.Users > maxPeople:
		return nil, fmt.Errorf("--users %d: must be from 1 to %d", o.Users, maxPeople)
	default:
		p.smallWorld(o.Users)
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

// smallWorld makes friends of neighbours on a ring and leads some of the
// friendships elsewhere (Watts and Strogatz, "Collective dynamics of
// 'small-world' networks", Nature 393, 1998).
func (p *people) smallWorld(n int) {
	for i := range n {
		p.ids = append(p.ids, idOf(i+1))
	}
	befriend := p.befriender()
	for i := range n {
		for k := 1; k <= smallWorldNeighbours && k < n; k++ {
			j := (i + k) % n
			if p.rng.Float64() < smallWorldRewire {
				j = p.rng.IntN(n)
			}
			befriend(p.ids[i], p.ids[j])
		}
	}
}

// befriender returns a function that adds a friendship, unless it has added it before or
// it is with oneself.
func (p *people) befriender() func(a, b models.UserID) {
	known := make(map[friends.Edge]bool)
	return func(a, b models.UserID) {
		e := friends.Edge{A: min(a, b), B: max(a, b)}
		if a != b && !known[e] {
			known[e] = true
			p.edges = append(p.edges, e)
		}
	}
}

// generatePatterns generates walking patterns of one day, which differ in how
// much is walked and when.
func (p *people) generatePatterns() {
	for range generatedPatterns {
		daily := 3000 + 9000*p.rng.Float64() + 4000*math.Abs(p.rng.NormFloat64())
		morning, evening := 6+3*p.rng.Float64(), 16+4*p.rng.Float64()
		var sum float64
		day := make([]float64, 24)
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

// profile returns the public profile of the person at a position.
func (p *people) profile(i int) models.Profile {
	return models.Profile{Nickname: p.names[i], CoverURL: p.coverOf(i)}
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
	friends := p.friendsBySteps(0)
	if len(friends) < 2 {
		return
	}
	steps := func(i int) float64 { return p.stepsAfter(friends[i], startHour) }
	ahead := max(1, len(friends)/3)
	for i := ahead + 1; i < len(friends)*2/3; i++ {
		if steps(i)-steps(i-1) > steps(ahead)-steps(ahead-1) {
			ahead = i
		}
	}
	p.headStart = max(0, steps(ahead)-startGap) - p.stepsAfter(0, startHour)
}

// dailyScore returns the score of a day with the given steps.
func dailyScore(steps float64) int64 {
	if steps > freshSteps {
		const rest = mostSteps - freshSteps
		steps = freshSteps + rest*(1-math.Exp((freshSteps-steps)/rest))
	}
	return int64(steps)
}

// homeZones are how far the clocks of the people are ahead of UTC, in turn.
var homeZones = [...]time.Duration{8 * time.Hour, 0, -5 * time.Hour, time.Hour, 5*time.Hour + 30*time.Minute, -8 * time.Hour}

// advance moves the days of the board and of the people's homes on to now. The first time it begins them.
func (p *people) advance(now time.Time) {
	p.walkDay.advance(now, p.board.Today(now))
	for i, zone := range homeZones {
		p.homeDays[i].advance(now, models.DateOf(now.UTC().Add(zone)))
	}
}

// homeDay returns the current day at the home of the person at a position in ids.
func (p *people) homeDay(position int) *walkDay { return &p.homeDays[position%len(homeZones)] }

// shaken returns the position of the person whose phone was shaken: none of those whom the
// page offers, nor a friend of the first one. It returns -1 if there are too few people.
func (p *people) shaken() int {
	if p.few() {
		return -1
	}
	return len(p.ids) * 7 / 8
}

// walkDay finds which hours of walking belong to the current day of a board or zone.
type walkDay struct {
	start time.Time   // when the demo began; zero before the first advance
	day   models.Date // the current day
	// The current day's steps lie between these hours of walking. They count from
	// midnight in the board's time zone, or at the person's home.
	began, now float64
}

// advance moves on to now. The first time it begins the day that is today.
func (d *walkDay) advance(now time.Time, today models.Date) {
	if d.start.IsZero() {
		d.start, d.day = now, today
	}
	d.now = startHour + float64(now.Sub(d.start))/float64(hourOfWalking)
	if today != d.day {
		d.day, d.began = today, d.now
	}
}

var givenNames = []string{
	"Mei", "Wei", "Lan", "Jun", "Hua", "Yan", "Ana", "Ben", "Carla", "Dmitri", "Elif", "Femi", "Grace", "Hugo", "Ines", "Jonas",
	"Kofi", "Lea", "Marta", "Noor", "Olga", "Pablo", "Qing", "Rosa", "Sanjay", "Tomoko", "Uma", "Viktor", "Wanjiru", "Ximena", "Yusuf", "Zoe",
}

var familyNames = []string{
	"Wang", "Li", "Zhang", "Chen", "Silva", "Garcia", "Novak", "Okafor", "Haddad", "Kim", "Sato", "Nguyen", "Patel", "Müller", "Rossi", "Dubois",
	"Jansen", "Kowalski", "Ivanova", "Yilmaz", "Mensah", "Castillo", "Lindqvist", "O'Brien", "Tanaka", "Singh", "Costa", "Fischer", "Moreau", "Santos", "Berg", "Cohen",
}
