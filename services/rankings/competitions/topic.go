package competitions

import (
	"context"

	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// maxListed is how many of the first teams and people an outcome has at most.
const maxListed = 100

// final is the payload of competition.final.
type final struct {
	Competition models.CompetitionID `json:"competition_id"`
	Revision    int                  `json:"revision"`
	Teams       []finalTeam          `json:"teams"`
	People      []finalPerson        `json:"people"`
}

type finalTeam struct {
	Rank    int            `json:"rank"`
	Group   models.GroupID `json:"group_id"`
	Name    string         `json:"name"`
	Score   int64          `json:"score"`
	Members int64          `json:"members"`
}

type finalPerson struct {
	User      models.RowID     `json:"user"`
	Group     models.GroupID   `json:"group_id"`
	Score     int64            `json:"score"`
	Days      int64            `json:"days"`
	ReachedAt models.Timestamp `json:"reached_at"`
}

// payloadOf returns the payload of a final standing.
func payloadOf(c *models.Competition, revision int, s *standing) final {
	p := final{Competition: c.ID, Revision: revision, Teams: []finalTeam{}, People: []finalPerson{}}
	for i, t := range s.teams[:min(maxListed, len(s.teams))] {
		p.Teams = append(p.Teams, finalTeam{Rank: i + 1, Group: t.ID, Name: t.Name, Score: t.shown(), Members: t.present})
	}
	for _, one := range s.people[:min(maxListed, len(s.people))] {
		p.People = append(p.People, finalPerson{one.User, s.teams[s.of[one.group]].ID, one.Score, one.Days, one.ReachedAt})
	}
	return p
}

type finalData struct {
	*final
	People []personLine `json:"people"`
}

// personLine is a line of `people`. Of an anonymous person it has score, days and time only.
type personLine struct {
	Rank int `json:"rank"`
	outcomes.Named
	GroupID   *models.GroupID  `json:"group_id"`
	Score     int64            `json:"score"`
	Days      int64            `json:"days"`
	ReachedAt models.Timestamp `json:"reached_at"`
}

// Topic returns what the outcomes of competitions look like. They name nobody who hides from everybody
// or was erased.
func Topic(records models.Records) outcomes.Topic {
	render := func(ctx context.Context, f *final) (any, error) {
		people, err := outcomes.People(ctx, records, f.People, func(p finalPerson) models.RowID { return p.User })
		if err != nil {
			return nil, err
		}
		data := finalData{f, make([]personLine, len(people))}
		for i, p := range f.People {
			data.People[i] = personLine{i + 1, people[i], nil, p.Score, p.Days, p.ReachedAt}
			if !people[i].Anonymous {
				data.People[i].GroupID = &p.Group
			}
		}
		return data, nil
	}
	return outcomes.NewTopic(models.OutcomeCompetitionFinal, render, (*final).without)
}

// without makes the lines of a user nameless.
func (f *final) without(user models.RowID) (named, left bool) {
	for i := range f.People {
		if f.People[i].User == user {
			f.People[i].User, named = 0, true
		}
	}
	return named, true
}
