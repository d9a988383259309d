package handlers

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/people/teams"
	"stepboard/services/rankings/competitions"
)

// CompetitionService shows competitions and their standings. An empty viewer is a backend or an
// operator, who sees all.
type CompetitionService interface {
	List(ctx context.Context, viewer models.UserID) ([]competitions.View, error)
	Get(ctx context.Context, viewer models.UserID, id models.CompetitionID) (competitions.View, error)
	Teams(ctx context.Context, q competitions.Query) (competitions.Page[competitions.TeamLine], error)
	People(ctx context.Context, q competitions.Query) (competitions.Page[competitions.Person], error)
	Recompute(ctx context.Context, id models.CompetitionID) error
}

// CompetitionDefinitions defines and ends competitions, and enters groups.
type CompetitionDefinitions interface {
	Put(ctx context.Context, d teams.Definition) (models.Competition, error)
	Delete(ctx context.Context, id models.CompetitionID) error
	Join(ctx context.Context, user models.UserID, code string, group models.GroupID) (models.Competition, error)
}

// competitionHandlers serves competitions.
type competitionHandlers struct {
	competitions CompetitionService
	definitions  CompetitionDefinitions
}

// CompetitionPath names a competition in the path.
type CompetitionPath struct {
	Competition models.CompetitionID `path:"competition" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9_-]+$" doc:"The competition" example:"spring-walk"`
}

// CompetitionInput names a competition and the user that the request acts for.
type CompetitionInput struct {
	CompetitionPath
	OnBehalf
}

// competition is a competition as the caller sees it.
type competition struct {
	CompetitionID models.CompetitionID `json:"competition_id" doc:"The competition" example:"spring-walk"`
	Board         string               `json:"board" doc:"The daily board whose scores count" example:"steps"`
	Name          string               `json:"name" doc:"Its name" example:"Spring walk"`
	From          string               `json:"from" format:"date" doc:"The first day, in the board's zone" example:"2026-11-16"`
	To            string               `json:"to" format:"date" doc:"The last day" example:"2026-11-29"`
	Cap           *int64               `json:"cap" nullable:"true" doc:"The most that counts of a day; null for no limit" example:"30000"`
	Goal          *int64               `json:"goal" nullable:"true" doc:"The score of a day that reaches the goal; null without one" example:"8000"`
	Measure       models.Measure       `json:"measure" enum:"score,goal_days" doc:"What a person has. score: the sum of the days; goal_days: how many days reach the goal"`
	Team          models.TeamMeasure   `json:"team" enum:"mean,sum" doc:"What a team has. mean: the mean of its people, each of whom counts for the days in the team; sum: the sum of its people"`
	JoinCode      *string              `json:"join_code" nullable:"true" doc:"The owners of groups enter them by this code before the first day; null if they may not, and in answers to and for users"`
	State         competitions.State   `json:"state" enum:"planned,running,closing,final" doc:"planned: before the first day; running; closing: the last day is over and the result is not final; final"`
	AsOf          *models.Timestamp    `json:"as_of" format:"date-time" nullable:"true" doc:"When the scores of the standing were read; null before the first time"`
	Revision      int                  `json:"revision" doc:"How often a final standing was made; 0 before the first one"`
	ChangedAt     *models.Timestamp    `json:"changed_at" format:"date-time" nullable:"true" doc:"When a day was seen to have changed since the latest final standing, which stays until an operator computes it again; null if none has" example:"2026-12-04T13:00:00.123Z"`
	Me            *competitionPlace    `json:"me" doc:"The user's own place; null for who is in no team, before the first standing, and for backends and operators"`
	MyTeam        *competitionTeam     `json:"my_team" doc:"The user's team; null likewise"`
	CreatedAt     models.Timestamp     `json:"created_at" format:"date-time" doc:"When it was first defined" example:"2026-11-10T13:00:00.123Z"`
}

// competitionPlace is the user's own place in a competition.
type competitionPlace struct {
	Rank    int64          `json:"rank" doc:"Place among all people of the competition" example:"3"`
	Score   int64          `json:"score" doc:"By the competition's measure" example:"123456"`
	Days    int64          `json:"days" doc:"On how many days the user has a score" example:"9"`
	GroupID models.GroupID `json:"group_id" doc:"The user's team" example:"kx7wq2m5a4tdzbnc"`
}

// competitionOf returns a competition as a viewer, empty for backends and operators, is shown it.
func competitionOf(v competitions.View, viewer models.UserID) competition {
	answer := competition{
		CompetitionID: v.ID, Board: v.Board, Name: v.Name, From: v.First.String(), To: v.Last.String(),
		Cap: unlessZero(v.Cap), Goal: unlessZero(v.Goal), Measure: v.Measure, Team: v.Team,
		State: v.State, AsOf: timestampIfAny(v.AsOf), Revision: v.Revision, ChangedAt: timestampIfAny(v.ChangedAt), CreatedAt: models.TimestampOf(v.CreatedAt),
	}
	if viewer == "" {
		answer.JoinCode = v.JoinCode
	}
	if v.Me != nil {
		answer.Me = &competitionPlace{v.Me.Rank, v.Me.Score, v.Me.Days, v.Me.Group}
	}
	if v.MyTeam != nil {
		answer.MyTeam = new(teamOf(*v.MyTeam))
	}
	return answer
}

// show returns the answer with a competition as a viewer is shown it.
func (h *competitionHandlers) show(ctx context.Context, viewer models.UserID, id models.CompetitionID) (*output[competition], error) {
	v, err := h.competitions.Get(ctx, viewer, id)
	return outputOf(competitionOf(v, viewer), err)
}

var listCompetitions = operation{
	id:      "listCompetitions",
	summary: "List competitions",
	description: "The competitions of the groups that the user is in, the one that begins last first. " +
		"A backend that names no user, and an operator, get all of them.",
}

type competitionList struct {
	Competitions []competition `json:"competitions" nullable:"false" doc:"The one that begins last first"`
}

func (h *competitionHandlers) list(ctx context.Context, in *OnBehalf) (*output[competitionList], error) {
	viewer, err := in.userIfAny(ctx)
	if err != nil {
		return nil, err
	}
	list, err := h.competitions.List(ctx, viewer)
	show := func(v competitions.View) competition { return competitionOf(v, viewer) }
	return outputOf(competitionList{answersOf(list, show)}, err)
}

var getCompetition = operation{
	id:      "getCompetition",
	summary: "Look at a competition",
	description: "A competition of a group that the user is in, with the user's own place and team. Others get 404. " +
		"GET /v1/competitions/{competition}/teams has its teams.",
	errors: []models.Code{models.CodeNotFound},
}

func (h *competitionHandlers) get(ctx context.Context, in *CompetitionInput) (*output[competition], error) {
	viewer, err := in.userIfAny(ctx)
	if err != nil {
		return nil, err
	}
	return h.show(ctx, viewer, in.Competition)
}

var enterCompetition = operation{
	id:      "enterCompetition",
	summary: "Enter a group in a competition",
	description: "The owner of a group makes it a team before the first day, such as `{\"code\":\"KX7WQ2M5A4TDZBNC\",\"group_id\":\"kx7wq2m5a4tdzbnc\"}`. " +
		"Its members count from the first day. A call that is repeated gets the same answer. " +
		"A person counts in one team at a time, the first; elsewhere it is a member who doesn't count. " +
		"A user may try ten codes a minute, those of groups and friends included (setting limits.joins_per_minute). " +
		"competition_started: it has begun; competition_full: it has 200 teams, or too many people.",
	errors: []models.Code{models.CodeNotFound, models.CodeCompetitionStarted, models.CodeCompetitionFull},
}

// competitionEntry says which group becomes a team.
type competitionEntry struct {
	Code    string         `json:"code" minLength:"1" maxLength:"64" doc:"The competition's join_code" example:"KX7WQ2M5A4TDZBNC"`
	GroupID models.GroupID `json:"group_id" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9_-]+$" doc:"The group, which the user owns" example:"kx7wq2m5a4tdzbnc"`
}

func (h *competitionHandlers) join(ctx context.Context, user models.UserID, in *ownInput[competitionEntry]) (*output[competition], error) {
	entered, err := h.definitions.Join(ctx, user, in.Body.Code, in.Body.GroupID)
	if err != nil {
		return nil, err
	}
	return h.show(ctx, user, entered.ID)
}

var putCompetition = operation{
	id:      "putCompetition",
	summary: "Define a competition",
	description: "Defines a competition or replaces its definition, such as `{\"board\":\"steps\",\"name\":\"Spring walk\",\"from\":\"2026-11-16\",\"to\":\"2026-11-29\",\"groups\":[\"office\",\"lab\"]}`. " +
		"Its board is a daily one with order high. It has 1 to 366 days, which may be past, at most 200 teams and 20,000 people, and at most a million of people times days. " +
		"From its first day on, another board, another date or another rule (cap, goal, measure, team) is `competition_started`; name, open and groups may change. " +
		"All people of a group that enters count from the first day, but for days on which they counted in another team; of a group that leaves nobody counts any more. " +
		"An operator's call is written to the audit log.",
	errors: []models.Code{
		models.CodeBoardNotFound, models.CodeNotFound, models.CodeBoardKind, models.CodeCompetitionStarted, models.CodeCompetitionFull,
	},
}

type putCompetitionInput struct {
	CompetitionPath
	Body newCompetition
}

// newCompetition is the definition of a competition.
type newCompetition struct {
	Board   string             `json:"board" doc:"The board's name" example:"steps"`
	Name    string             `json:"name" doc:"1 to 64 characters, under the rules of nicknames" example:"Spring walk"`
	From    string             `json:"from" format:"date" doc:"The first day, in the board's zone" example:"2026-11-16"`
	To      string             `json:"to" format:"date" doc:"The last day" example:"2026-11-29"`
	Cap     *int64             `json:"cap,omitempty" nullable:"true" minimum:"0" doc:"The most that counts of a day; 0, null or left out for no limit" example:"30000"`
	Goal    *int64             `json:"goal,omitempty" nullable:"true" minimum:"0" doc:"The score of a day that reaches the goal; for measure goal_days only, which needs it" example:"8000"`
	Measure models.Measure     `json:"measure,omitempty" enum:"score,goal_days" default:"score" doc:"What a person has. score: the sum of the days; goal_days: how many days reach the goal"`
	Team    models.TeamMeasure `json:"team,omitempty" enum:"mean,sum" default:"mean" doc:"What a team has. mean: the sum of its people, divided by the days on which they were in it, times the days that have begun; sum: the sum"`
	Open    bool               `json:"open,omitempty" doc:"Whether it has a join_code, by which the owners of groups enter them before the first day"`
	Groups  []teamID           `json:"groups,omitempty" nullable:"false" maxItems:"200" uniqueItems:"true" doc:"Exactly these groups are its teams; if it is left out, the teams stay as they are" example:"[\"office\",\"lab\"]"`
}

// teamID is the id of a group in a list, each of which is checked.
type teamID models.GroupID

// Schema describes the id of a group.
func (teamID) Schema(huma.Registry) *huma.Schema {
	shortest, longest := 1, 64
	return &huma.Schema{Type: huma.TypeString, MinLength: &shortest, MaxLength: &longest, Pattern: "^[A-Za-z0-9_-]+$", Description: "A group"}
}

func (in *putCompetitionInput) about(e *audit.Entry) {
	e.Board, e.Target = in.Body.Board, string(in.Competition)
}

// definition returns the body as the service takes it.
func (in *putCompetitionInput) definition() teams.Definition {
	b := in.Body
	d := teams.Definition{
		ID: in.Competition, Board: b.Board, Name: b.Name, First: dateOf(b.From), Last: dateOf(b.To), Measure: b.Measure, Team: b.Team, Open: b.Open,
	}
	if b.Cap != nil {
		d.Cap = *b.Cap
	}
	if b.Goal != nil {
		d.Goal = *b.Goal
	}
	if b.Groups != nil {
		d.Groups = answersOf(b.Groups, func(id teamID) models.GroupID { return models.GroupID(id) })
	}
	return d
}

func (h *competitionHandlers) put(ctx context.Context, in *putCompetitionInput) (*output[competition], error) {
	if _, err := h.definitions.Put(ctx, in.definition()); err != nil {
		return nil, err
	}
	return h.show(ctx, "", in.Competition)
}

var deleteCompetition = operation{
	id:      "deleteCompetition",
	summary: "Delete a competition",
	description: "Deletes a competition with its standings, whatever its state. Groups, scores and webhooks stay. It may be repeated. " +
		"An operator's call is written to the audit log.",
}

type deleteCompetitionInput struct{ CompetitionPath }

func (in *deleteCompetitionInput) about(e *audit.Entry) { e.Target = string(in.Competition) }

func (h *competitionHandlers) delete(ctx context.Context, in *deleteCompetitionInput) (*struct{}, error) {
	return nil, h.definitions.Delete(ctx, in.Competition)
}

var recomputeCompetition = operation{
	id:      "recomputeCompetition",
	summary: "Compute a final competition again",
	description: "A job makes the next revision of the final standing of the scores as they are now, and sends the webhook competition.final once more. " +
		"With `?dry_run=true` nothing changes, and the answer, a 200, is the same.",
	otherStatus: http.StatusAccepted,
	errors:      []models.Code{models.CodeNotFound},
}

type recomputeInput struct {
	CompetitionPath
	DryRun
	Body recomputation
}

// recomputation says why a competition is computed again.
type recomputation struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for other operators: plain text" example:"a team had the wrong members"`
}

func (in *recomputeInput) about(e *audit.Entry) {
	e.Target, e.Reason = string(in.Competition), in.Body.Reason
}

func (h *competitionHandlers) recompute(ctx context.Context, in *recomputeInput) (*statusOutput[competition], error) {
	if !in.isDryRun() {
		if err := h.competitions.Recompute(ctx, in.Competition); err != nil {
			return nil, err
		}
	}
	v, err := h.competitions.Get(ctx, "", in.Competition)
	return statusOutputOf(in.status(http.StatusAccepted), competitionOf(v, ""), err)
}

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
