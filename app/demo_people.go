package app

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/ingest"
)

const (
	// demoTick is how often some people's phones report.
	demoTick = 500 * time.Millisecond
	// demoHour is how long an hour of walking takes in the demo.
	demoHour = 30 * time.Second
	// demoStartHour is the hour of the day at which the demo begins.
	demoStartHour = 8
	// demoOpenDays is how many days take uploads, today included.
	demoOpenDays = 3
	// demoReports is the part of the people whose phones report in one tick.
	demoReports = 1.0 / 20
	// A day of more steps than demoFresh tires the people of a demo that runs
	// for hours: each step counts for less, and nobody gets to demoMost.
	demoFresh = 40_000
	demoMost  = 90_000

	// Each person of the small world knows this many neighbours on either
	// side, and each friendship leads elsewhere with this probability.
	smallWorldNeighbours = 10
	smallWorldRewire     = 0.15

	maxDemoUsers = 100_000
	// demoEdges is how many friendships are stored at once: more than in an
	// import, because the embedded Redis is slow at each user's marks and
	// nobody waits for the users' rows.
	demoEdges = 5000
)

// people are the inhabitants of a demo.
type people struct {
	ids   []models.UserID // ascending
	edges []models.Edge   // each friendship once
	// sums holds, for each kind of person, the steps since midnight of the
	// first day: after no hour, after the first, and so on for whole days. It
	// begins again at its end.
	sums  [][]float64
	rng   *rand.Rand
	names []string // by position in ids
	// stroll begins when the people have moved in.
	stroll stroll
}

// newPeople makes the people of a demo, from files where they are named.
func newPeople(ctx context.Context, o demoOptions) (*people, error) {
	p := &people{rng: rand.New(rand.NewPCG(o.seed, o.seed^0x9e3779b97f4a7c15))}
	if err := p.meet(ctx, o); err != nil {
		return nil, err
	}
	p.names = make([]string, len(p.ids))
	for i := range p.names {
		p.names[i] = givenNames[p.rng.IntN(len(givenNames))] + " " + familyNames[p.rng.IntN(len(familyNames))]
	}
	if o.steps == "" {
		p.generateHours()
		return p, nil
	}
	return p, readFile(ctx, o.steps, p.readHours)
}

// meet makes users and friendships.
func (p *people) meet(ctx context.Context, o demoOptions) error {
	if o.graph != "" {
		return readFile(ctx, o.graph, p.readGraph)
	}
	if o.users < 1 || o.users > maxDemoUsers {
		return fmt.Errorf("--users %d: must be from 1 to %d", o.users, maxDemoUsers)
	}
	for i := range o.users {
		p.ids = append(p.ids, models.UserID(i+1))
	}
	p.smallWorld()
	return nil
}

// smallWorld makes friends of neighbours on a ring and leads some of the
// friendships elsewhere (Watts and Strogatz, "Collective dynamics of
// 'small-world' networks", Nature 393, 1998).
func (p *people) smallWorld() {
	n := len(p.ids)
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

// befriender answers what adds a friendship, unless it is there already or
// with oneself.
func (p *people) befriender() func(a, b models.UserID) {
	seen := make(map[models.Edge]bool)
	return func(a, b models.UserID) {
		e := models.Edge{A: min(a, b), B: max(a, b)}
		if e.A != e.B && !seen[e] {
			seen[e] = true
			p.edges = append(p.edges, e)
		}
	}
}

// generateHours makes kinds of people by their day: when they walk and how
// much.
func (p *people) generateHours() {
	const kinds = 200
	for range kinds {
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
		p.addKind(day)
	}
}

// addKind adds a kind of person by the steps of each hour.
func (p *people) addKind(hours []float64) {
	sums := make([]float64, len(hours)+1)
	for h, steps := range hours {
		sums[h+1] = sums[h] + steps
	}
	p.sums = append(p.sums, sums)
}

func bell(x, mean, width float64) float64 {
	return math.Exp(-(x - mean) * (x - mean) / (2 * width * width))
}

// profile is what others see of a person.
func (p *people) profile(id models.UserID) models.Profile {
	at, _ := slices.BinarySearch(p.ids, id)
	return models.Profile{Nickname: p.names[at]}
}

// walked is how many steps the person at a position has walked after so many
// hours since the first midnight.
func (p *people) walked(at int, hours float64) float64 {
	sums := p.sums[at%len(p.sums)]
	length := len(sums) - 1
	rounds := math.Floor(hours / float64(length))
	rest := hours - rounds*float64(length)
	h := min(int(rest), length-1)
	return rounds*sums[length] + sums[h] + (sums[h+1]-sums[h])*(rest-float64(h))
}

// tired is the score of so many steps on one day.
func tired(steps float64) int64 {
	if steps > demoFresh {
		const rest = demoMost - demoFresh
		steps = demoFresh + rest*(1-math.Exp((demoFresh-steps)/rest))
	}
	return int64(steps)
}

// stroll tells which part of their day a demo's people have walked.
type stroll struct {
	start time.Time   // when the demo began
	day   models.Date // of the board
	began float64     // in demo hours, when that day began
}

// at moves on to a moment and answers the demo hours between which the steps
// of its day lie. They count from the midnight of the board's zone, as
// everywhere.
func (s *stroll) at(now time.Time, today models.Date) (from, to float64) {
	to = demoStartHour + float64(now.Sub(s.start))/float64(demoHour)
	if today != s.day {
		s.day, s.began = today, to
	}
	return s.began, to
}

// moveIn stores the people, their friendships and the days that are past.
func (p *people) moveIn(ctx context.Context, a *App, clock models.Clock, line progress) error {
	profiles := make(map[models.UserID]models.Profile, len(p.ids))
	for _, id := range p.ids {
		profiles[id] = p.profile(id)
	}
	if err := a.Users.Create(ctx, profiles); err != nil {
		return err
	}
	if err := p.storeFriends(ctx, a, line); err != nil {
		return err
	}
	board, err := a.Catalog.Definitions.Board(demoBoard)
	if err != nil {
		return err
	}
	now := clock()
	today := board.Today(now)
	p.stroll = stroll{start: now, day: today}
	if err := p.remember(ctx, a, board, now, line); err != nil {
		return err
	}
	uploads := make([]ingest.Upload, 0, demoOpenDays*len(p.ids))
	for at, id := range p.ids {
		for ago := range demoOpenDays {
			score := p.walked(at, 24) * (0.45 + 1.1*p.rng.Float64())
			if ago == 0 {
				score = p.walked(at, demoStartHour)
			}
			uploads = append(uploads, ingest.Upload{User: id, Date: today - models.Date(ago), Score: tired(score)})
		}
	}
	if err := uploadAll(ctx, a, uploads); err != nil {
		return err
	}
	return p.ask(ctx, a)
}

// ask lets those whom the page offers to be have requests to answer, and one
// that they wait for. Who happens to be a friend already asks nobody.
func (p *people) ask(ctx context.Context, a *App) error {
	n := len(p.ids)
	if n < 4*smallWorldNeighbours {
		return nil // everybody knows everybody
	}
	for at := range min(n, demoChoices) {
		me, strangers := p.ids[at], [3]models.UserID{p.ids[(at+n/2)%n], p.ids[(at+n/3)%n], p.ids[(at+n/4)%n]}
		for i, from := range strangers {
			to := me
			if i == 2 {
				from, to = me, from
			}
			if _, _, err := a.Friends.Ask(ctx, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *people) storeFriends(ctx context.Context, a *App, line progress) error {
	defer line.clear()
	done := 0
	for chunk := range slices.Chunk(p.edges, demoEdges) {
		// A change of the graph goes on to its end once it has begun.
		if err := ctx.Err(); err != nil {
			return err
		}
		line.show("moving in: %d of %d friendships", done, len(p.edges))
		_, rejected, err := a.Friends.Import(ctx, chunk)
		if err != nil {
			return err
		}
		if len(rejected) > 0 {
			return rejected[0].Err
		}
		done += len(chunk)
	}
	return nil
}

// walk lets people walk, at a pace that can be seen, until ctx ends.
func (p *people) walk(ctx context.Context, a *App, clock models.Clock, log *slog.Logger) {
	board, err := a.Catalog.Definitions.Board(demoBoard)
	if err != nil {
		log.Error("nobody walks", "error", err)
		return
	}
	ticker := time.NewTicker(demoTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := clock()
		from, to := p.stroll.at(now, board.Today(now))
		var uploads []ingest.Upload
		for at, id := range p.ids {
			if p.rng.Float64() < demoReports {
				score := tired(p.walked(at, to) - p.walked(at, from))
				uploads = append(uploads, ingest.Upload{User: id, Date: p.stroll.day, Score: score})
			}
		}
		if err := uploadAll(ctx, a, uploads); err != nil && ctx.Err() == nil {
			log.Warn("a report of steps was lost", "error", err)
		}
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
