// Package teams keeps competitions: their definitions, the groups that are teams in them, and on which
// days a person counts for which team.
//
// package groups tells it of each change of a group, in the transaction of that change. So whoever
// joins a group counts from that day on, and whoever leaves it no more, while the days before stay with
// the team. A person counts in one team of a competition on a day. Locks are taken in the order users,
// groups, competitions, each ascending.
package teams

import "stepboard/models"

// Definition is what a backend or an operator says of a competition.
type Definition struct {
	ID          models.CompetitionID
	Board       string
	Name        string
	First, Last models.Date
	// Cap is the most that counts of a day, 0 for no limit; Goal is that of MeasureGoalDays.
	Cap, Goal int64
	Measure   models.Measure
	Team      models.TeamMeasure
	// Open gives it a code by which the owners of groups enter them.
	Open bool
	// Groups are the teams, at most MaxCompetitionTeams; nil leaves those that are there.
	Groups []models.GroupID
}

// Team is a group in a competition.
type Team struct {
	Group models.GroupRow `gorm:"column:group_id"`
	ID    models.GroupID  `gorm:"column:external_id"`
	Name  string
	// Counting is how many people are in it, and Members how many are in the group.
	Counting, Members int
}
