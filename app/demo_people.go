package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
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
	// demoReports is the part of the people whose phones report in one tick.
	demoReports = 1.0 / 20
	// demoMost is where the people of a demo that runs for hours stop.
	demoMost = 60_000

	// Each person of the small world knows this many neighbours on either
	// side, and each friendship leads elsewhere with this probability.
	smallWorldNeighbours = 10
	smallWorldRewire     = 0.15

	maxDemoUsers = 100_000
)

// people are the inhabitants of a demo.
type people struct {
	ids   []models.UserID
	edges []models.Edge
	// hours holds, for each kind of person, the steps of each hour since
	// midnight of the first day; it begins again at its end.
	hours [][]float64
	rng   *rand.Rand
	names []string // by position in ids
}

// newPeople makes the people of a demo, from files where they are named.
func newPeople(o demoOptions) (*people, error) {
	p := &people{rng: rand.New(rand.NewPCG(o.seed, o.seed^0x9e3779b97f4a7c15))}
	if err := p.meet(o); err != nil {
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
	return p, readFile(o.steps, p.readHours)
}

// meet makes users and friendships.
func (p *people) meet(o demoOptions) error {
	if o.graph != "" {
		return readFile(o.graph, p.readGraph)
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

func readFile(path string, read func(io.Reader) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := read(file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// smallWorld makes friends of neighbours on a ring and leads some of the
// friendships elsewhere (Watts and Strogatz, "Collective dynamics of
// 'small-world' networks", Nature 393, 1998).
func (p *people) smallWorld() {
	n := len(p.ids)
	seen := make(map[models.Edge]bool)
	for i := range n {
		for k := 1; k <= smallWorldNeighbours && k < n; k++ {
			j := (i + k) % n
			if p.rng.Float64() < smallWorldRewire {
				j = p.rng.IntN(n)
			}
			e := models.Edge{A: min(p.ids[i], p.ids[j]), B: max(p.ids[i], p.ids[j])}
			if e.A != e.B && !seen[e] {
				seen[e] = true
				p.edges = append(p.edges, e)
			}
		}
	}
}

// readGraph reads friendships between users numbered from 0.
func (p *people) readGraph(in io.Reader) error {
	known := make(map[models.UserID]bool)
	err := eachLine(in, func(line string) error {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			return nil
		}
		e, err := parseEdge(line, 1)
		if err != nil {
			return err
		}
		p.edges = append(p.edges, e)
		for _, id := range []models.UserID{e.A, e.B} {
			if !known[id] {
				known[id] = true
				p.ids = append(p.ids, id)
			}
		}
		return nil
	})
	if err == nil && len(p.ids) == 0 {
		return errors.New("there are no friendships in it")
	}
	slices.Sort(p.ids)
	return err
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
		p.hours = append(p.hours, day)
	}
}

func bell(x, mean, width float64) float64 {
	return math.Exp(-(x - mean) * (x - mean) / (2 * width * width))
}

// readHours reads Id,ActivityHour,StepTotal; the people of the file, by
// ascending id, become kinds of people.
func (p *people) readHours(in io.Reader) error {
	byID := make(map[models.UserID][]float64)
	header := true
	err := eachLine(in, func(line string) error {
		if header {
			header = false
			return nil
		}
		fields := strings.Split(strings.TrimSpace(line), ",")
		if len(fields) != 3 {
			return fmt.Errorf("%q is not Id,ActivityHour,StepTotal", line)
		}
		id, err := models.ParseUserID(fields[0])
		if err != nil {
			return fmt.Errorf("%q: %w", fields[0], err)
		}
		steps, err := parseSteps(fields[2])
		if err != nil {
			return err
		}
		byID[id] = append(byID[id], float64(steps))
		return nil
	})
	if err != nil {
		return err
	}
	ids := make([]models.UserID, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		p.hours = append(p.hours, byID[id])
	}
	if len(p.hours) == 0 {
		return errors.New("there are no steps in it")
	}
	return nil
}

// profile is what others see of a person.
func (p *people) profile(id models.UserID) models.Profile {
	at, _ := slices.BinarySearch(p.ids, id)
	return models.Profile{Nickname: p.names[at]}
}

// walked is how many steps the person at a position has walked after so many
// hours since the first midnight.
func (p *people) walked(at int, hours float64) float64 {
	kind := p.hours[at%len(p.hours)]
	var sum, round float64
	for _, steps := range kind {
		round += steps
	}
	length := float64(len(kind))
	sum = math.Floor(hours/length) * round
	rest := math.Mod(hours, length)
	for h := 0; float64(h) < rest; h++ {
		sum += kind[h] * min(1, rest-float64(h))
	}
	return sum
}

// moveIn stores the people, their friendships and the days that are past.
func (p *people) moveIn(ctx context.Context, a *App, clock models.Clock) error {
	profiles := make(map[models.UserID]models.Profile, len(p.ids))
	for _, id := range p.ids {
		profiles[id] = p.profile(id)
	}
	if err := a.Users.Create(ctx, profiles); err != nil {
		return err
	}
	for chunk := range slices.Chunk(p.edges, edgeBatch) {
		if _, _, err := a.Friends.Import(ctx, chunk); err != nil {
			return err
		}
	}
	board, err := a.Catalog.Board(demoBoard)
	if err != nil {
		return err
	}
	today := board.Today(clock())
	uploads := make([]ingest.Upload, 0, 3*len(p.ids))
	for at, id := range p.ids {
		for ago := range 3 {
			score := p.walked(at+ago, 24)
			if ago == 0 {
				score = p.walked(at, demoStartHour)
			}
			uploads = append(uploads, ingest.Upload{User: id, Date: today - models.Date(ago), Score: int64(min(score, demoMost))})
		}
	}
	return uploadAll(ctx, a, uploads)
}

// walk lets people walk, at a pace that can be seen, until ctx ends. Their
// steps count from the midnight of the board's zone, as everywhere.
func (p *people) walk(ctx context.Context, a *App, clock models.Clock, log *slog.Logger) {
	board, err := a.Catalog.Board(demoBoard)
	if err != nil {
		log.Error("nobody walks", "error", err)
		return
	}
	ticker := time.NewTicker(demoTick)
	defer ticker.Stop()
	start := clock()
	day, dayBegan := board.Today(start), 0.0 // in demo hours
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := clock()
		hours := demoStartHour + float64(now.Sub(start))/float64(demoHour)
		if today := board.Today(now); today != day {
			day, dayBegan = today, hours
		}
		var uploads []ingest.Upload
		for at, id := range p.ids {
			if p.rng.Float64() < demoReports {
				score := p.walked(at, hours) - p.walked(at, dayBegan)
				uploads = append(uploads, ingest.Upload{User: id, Date: day, Score: int64(min(score, demoMost))})
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
