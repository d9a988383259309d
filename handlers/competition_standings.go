package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/rankings/competitions"
)

// StandingInput picks a page of the standing of a competition.
type StandingInput struct {
	CompetitionInput
	Paging
}

// query returns the query for the page.
func (in *StandingInput) query(ctx context.Context) (competitions.Query, error) {
	viewer, err := in.userIfAny(ctx)
	return competitions.Query{Viewer: viewer, ID: in.Competition, Cursor: in.Cursor, Limit: in.Limit}, err
}

var rankTeams = operation{
	id:      "getTeamStanding",
	summary: "Rank the teams of a competition",
	description: "One page of the teams, best first: `?limit=50`, then `&cursor=` with the page's next_cursor. " +
		"503 until the standing was computed for the first time. People who hide from everybody add nothing to a team. " +
		"On a board with global service a team of fewer than three shows its score only to its own people.",
	errors: []models.Code{models.CodeNotFound},
}

// competitionTeam is a team in a standing.
type competitionTeam struct {
	Rank        int64          `json:"rank" doc:"Place among the teams, from 1; no two teams share one" example:"2"`
	GroupID     models.GroupID `json:"group_id" doc:"The group" example:"kx7wq2m5a4tdzbnc"`
	Name        string         `json:"name" doc:"Its name; empty if a backend has made the group without one" example:"Family"`
	Score       *int64         `json:"score" nullable:"true" doc:"By the competition's rule, rounded down; null if it is not shown to the caller" example:"112233"`
	Members     int64          `json:"members" doc:"How many people are in the team" example:"12"`
	NotCounting *int64         `json:"not_counting" nullable:"true" doc:"How many members of the group don't count, because they are in another team or the competition is full; null for users" example:"0"`
}

func teamOf(t competitions.TeamLine) competitionTeam {
	return competitionTeam{t.Rank, t.Group, t.Name, t.Score, t.Members, t.NotCounting}
}

type teamStanding struct {
	AsOf       models.Timestamp  `json:"as_of" format:"date-time" doc:"When the scores were read"`
	Final      bool              `json:"final" doc:"True once all days are archived; then it changes only by a further revision"`
	Total      int64             `json:"total" doc:"How many teams there are, on all pages together" example:"14"`
	Entries    []competitionTeam `json:"entries" nullable:"false" doc:"This page, best first"`
	NextCursor *string           `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *competitionHandlers) teams(ctx context.Context, in *StandingInput) (*output[teamStanding], error) {
	q, err := in.query(ctx)
	if err != nil {
		return nil, err
	}
	p, err := h.competitions.Teams(ctx, q)
	return outputOf(teamStanding{models.TimestampOf(p.AsOf), p.Final, p.Total, answersOf(p.Entries, teamOf), p.NextCursor}, err)
}

var rankPeople = operation{
	id:      "getPeopleStanding",
	summary: "Rank the people of a competition",
	description: "One page of the people, best first; with `?group=kx7wq2m5a4tdzbnc` those of one team, with their places among all. " +
		"People who hide from everybody are not listed. Lines of people who are not shown to the user have no user_id and no group_id, and `\"anonymous\":true`. " +
		"On a board with global service the user is shown the people of the own team, and the others are 403. " +
		"503 until the standing was computed for the first time.",
	errors: []models.Code{models.CodeNotFound},
}

type peopleStandingInput struct {
	StandingInput
	Group models.GroupID `query:"group" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9_-]+$" doc:"The people of this team only"`
}

// competitionPerson is a person in a standing.
type competitionPerson struct {
	Rank      int64             `json:"rank" doc:"Place among all people of the competition, from 1; no two share one" example:"3"`
	UserID    *models.UserID    `json:"user_id" nullable:"true" doc:"The user; null in anonymous lines"`
	Nickname  string            `json:"nickname" doc:"Empty if the user has set none, and in anonymous lines"`
	AvatarURL string            `json:"avatar_url" doc:"Empty likewise"`
	Anonymous bool              `json:"anonymous,omitzero" doc:"True in lines whose user is not shown to the caller, or was erased since the standing is final; left out otherwise"`
	Score     int64             `json:"score" doc:"By the competition's measure" example:"123456"`
	ReachedAt *models.Timestamp `json:"reached_at" nullable:"true" format:"date-time" doc:"When a score of the user last rose; null without one"`
	Days      int64             `json:"days" doc:"On how many days the user has a score" example:"9"`
	GroupID   *models.GroupID   `json:"group_id" nullable:"true" doc:"The user's team; null in anonymous lines"`
	IsMe      bool              `json:"is_me" doc:"Whether it is the user that the call is made for"`
}

func personOf(p competitions.Person) competitionPerson {
	return competitionPerson{
		Rank: p.Rank, UserID: unlessZero(p.User), Nickname: p.Nickname, AvatarURL: p.AvatarURL, Anonymous: p.User == "",
		Score: p.Score, ReachedAt: unlessZero(p.ReachedAt), Days: p.Days, GroupID: unlessZero(p.Group), IsMe: p.IsMe,
	}
}

type peopleStanding struct {
	AsOf       models.Timestamp    `json:"as_of" format:"date-time" doc:"When the scores were read"`
	Final      bool                `json:"final" doc:"True once all days are archived; then it changes only by a further revision"`
	Total      int64               `json:"total" doc:"How many lines there are, on all pages together" example:"120"`
	Entries    []competitionPerson `json:"entries" nullable:"false" doc:"This page, best first"`
	NextCursor *string             `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *competitionHandlers) people(ctx context.Context, in *peopleStandingInput) (*output[peopleStanding], error) {
	q, err := in.query(ctx)
	if err != nil {
		return nil, err
	}
	q.Group = in.Group
	p, err := h.competitions.People(ctx, q)
	return outputOf(peopleStanding{models.TimestampOf(p.AsOf), p.Final, p.Total, answersOf(p.Entries, personOf), p.NextCursor}, err)
}
