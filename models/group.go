package models

import "time"

// MaxGroupMembers is the largest number of members of a group, and MaxGroups the largest
// number of groups of a user.
const (
	MaxGroupMembers = 500
	MaxGroups       = 50
)

// MaxSpanDays is the largest number of days of a span and of a challenge.
const MaxSpanDays = 31

// GroupID is the id of a group that clients see: 1 to 64 of A-Z, a-z, 0-9, _ and -.
type GroupID string

// GroupRow is the internal number of a group, from 1. A number is never used again. It
// never leaves the service.
type GroupRow int64

// Group is a row of the table groups.
type Group struct {
	Row GroupRow `gorm:"column:group_id;primaryKey"`
	ID  GroupID  `gorm:"column:external_id"`
	// Name is empty for a group to which a backend has given none.
	Name string
	// OwnerID and InviteCode are nil for a group whose members a backend sets.
	OwnerID    *RowID
	InviteCode *string
	CreatedAt  time.Time
	// ChallengeFrom and ChallengeTo are the first and the last day of the group's
	// challenge; nil for a group without one.
	ChallengeFrom, ChallengeTo *Date
}

// TableName returns the name of the table of groups.
func (Group) TableName() string { return "groups" }

// NoGroup returns the error about a group that does not exist, and about one that the user is not a
// member of: nobody learns which groups exist.
func NoGroup(id GroupID) *Error {
	return Errorf(CodeNotFound, "this user is not a member of a group %s", id)
}

// MaxCompetitionDays, MaxCompetitionTeams, MaxCompetitionPeople and MaxCompetitionScores bound a
// competition: its days, its teams, the people who count in it at a time, and these times its days.
const (
	MaxCompetitionDays   = 366
	MaxCompetitionTeams  = 200
	MaxCompetitionPeople = 20_000
	MaxCompetitionScores = 1_000_000
)

// CompetitionID is the id of a competition that clients see: 1 to 64 of A-Z, a-z, 0-9, _ and -.
type CompetitionID string

// CompetitionRow is the internal number of a competition, from 1. A number is never used again.
type CompetitionRow int64

// Measure is what counts of the days of a person in a competition.
type Measure string

// The measures.
const (
	// MeasureScore is the sum of the scores, each at most Cap.
	MeasureScore Measure = "score"
	// MeasureGoalDays is the number of days with a score of Goal or more.
	MeasureGoalDays Measure = "goal_days"
)

// TeamMeasure is what a team makes of what its people have.
type TeamMeasure string

// The measures of teams.
const (
	// TeamMean is the sum, divided by the days on which people counted for the team, times the days of
	// the competition that have begun: what a person has who was there all the time.
	TeamMean TeamMeasure = "mean"
	// TeamSum is the sum.
	TeamSum TeamMeasure = "sum"
)

// Competition is a competition of groups on a daily board that ranks the highest score first: a row of
// table competitions. Board, First, Last and the rule never change once it has begun.
type Competition struct {
	Row   CompetitionRow `gorm:"column:competition_id;primaryKey"`
	ID    CompetitionID  `gorm:"column:external_id"`
	Board string
	Name  string
	// First and Last are its days, both included.
	First Date `gorm:"column:first_day"`
	Last  Date `gorm:"column:last_day"`
	// Cap is the most that counts of a day; 0 for no limit. Goal is that of MeasureGoalDays, otherwise 0.
	Cap     int64 `gorm:"column:day_cap"`
	Goal    int64
	Measure Measure
	Team    TeamMeasure
	// JoinCode lets the owners of groups enter them before First; nil if they may not.
	JoinCode  *string
	CreatedAt time.Time
	// Revision is the number of the latest final standing; 0 before the first one. FinalAt is when the
	// first one was made.
	Revision int
	FinalAt  *time.Time
	// Recompute asks for one more.
	Recompute bool
	// FinalRuns is the sum of the numbers of the last archive runs of all days when the latest final standing was
	// made, nil if nobody noted it. ChangedAt is when a day was seen to have been archived again since; nil if none was.
	FinalRuns *int64
	ChangedAt *time.Time
}

// TableName returns the name of the table of competitions.
func (Competition) TableName() string { return "competitions" }

// TeamMember is a person who counts for a team of a competition on some days: a row of table
// competition_members. A person counts in one team on a day.
type TeamMember struct {
	Competition CompetitionRow `gorm:"column:competition_id;primaryKey"`
	User        RowID          `gorm:"column:user_id;primaryKey"`
	Group       GroupRow       `gorm:"column:group_id"`
	// First is the first day, and Last the last; nil for who is in the team. Days before the
	// competition's First and after its Last do not count.
	First Date  `gorm:"column:first_day;primaryKey"`
	Last  *Date `gorm:"column:last_day"`
}

// TableName returns the name of the table of the members of teams.
func (TeamMember) TableName() string { return "competition_members" }
