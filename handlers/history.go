package handlers

import (
	"cmp"
	"context"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// HistoryService reads a user's scores and places over many days.
type HistoryService interface {
	History(ctx context.Context, q ranking.HistoryQuery) (*ranking.History, error)
	DaySums(ctx context.Context, q ranking.HistoryQuery, goal int64) (ranking.DaySums, error)
}

// historyHandlers serves histories.
type historyHandlers struct {
	history HistoryService
}

var listHistory = operation{
	id:      "getHistory",
	summary: "List one's days",
	description: "The user's days, newest first, hot and archived ones alike; days without a score are left out. " +
		"A month is `?from=2026-10-01&to=2026-10-31`, at most 366 days; without both it is the last 31 days. " +
		"`&for=1002` returns a friend's days. " +
		"Archived days from long before the friendship are left out (setting friends.history_days).",
	errors: dayErrors(models.CodeNotFound),
	report: always,
}

type historyInput struct {
	HistoryOf
	From string `query:"from" doc:"The first day, YYYY-MM-DD; 30 days before the last if it is left out" format:"date"`
	To   string `query:"to" doc:"The last day; today if it is left out" format:"date"`
}

// HistoryOf picks the board and the user whose days are read.
type HistoryOf struct {
	Board string        `path:"board" doc:"The board's name" example:"steps"`
	For   models.UserID `query:"for" doc:"A friend's id; one's own days if it is left out"`
	LocalTime
	OnBehalf
}

// query returns the query of a viewer.
func (in *HistoryOf) query(viewer models.UserID) (ranking.HistoryQuery, error) {
	offset, err := in.offset()
	return ranking.HistoryQuery{Board: in.Board, Viewer: viewer, User: cmp.Or(in.For, viewer), Offset: offset}, err
}

// query returns the query of a viewer for the days that the request picks.
func (in *historyInput) query(viewer models.UserID) (ranking.HistoryQuery, error) {
	q, err := in.HistoryOf.query(viewer)
	q.From, q.To = optionalDate(in.From), optionalDate(in.To)
	return q, err
}

type historyEntry struct {
	Date        string           `json:"date" format:"date" doc:"The day, in the board's zone" example:"2026-11-20"`
	Score       int64            `json:"score" doc:"Steps, coins or points" example:"12345"`
	ReachedAt   models.Timestamp `json:"reached_at" format:"date-time" doc:"When the user reached this score" example:"2026-11-20T13:00:00.123Z"`
	GlobalRank  int64            `json:"global_rank" doc:"Place among everybody" example:"120"`
	GlobalTotal int64            `json:"global_total" doc:"How many users had a score" example:"2000"`
	Source      models.Source    `json:"source" enum:"hot,archive" doc:"Where the day is stored"`
}

type history struct {
	Entries []historyEntry `json:"entries" nullable:"false" doc:"Newest first; days without a score are left out"`
	Partial bool           `json:"partial" doc:"True if the most recent days are missing because they can't be read right now"`
}

func (h *historyHandlers) list(ctx context.Context, q ranking.HistoryQuery, _ *historyInput) (*output[history], error) {
	found, err := h.history.History(ctx, q)
	if err != nil {
		return nil, err
	}
	return &output[history]{history{Entries: answersOf(found.Days, historyEntryOf), Partial: found.Partial}}, nil
}

func historyEntryOf(d ranking.Day) historyEntry {
	return historyEntry{
		Date: d.Date.String(), Score: d.Score, ReachedAt: d.ReachedAt, GlobalRank: d.Rank, GlobalTotal: d.Total, Source: d.Source,
	}
}

var sumDays = operation{
	id:      "getSummary",
	summary: "Add up one's days",
	description: "The user's week, month, average, best day and streaks, of the last 366 days. `?goal=8000` says which days a streak counts: those with that score or more. " +
		"`&for=1002` is about a friend, as in GET /v1/boards/{board}/history. Boards with order low have no summary.",
	errors: []models.Code{models.CodeBoardNotFound, models.CodeNotFound, models.CodeBoardKind, models.CodeOffsetRequired},
	report: always,
}

type summaryInput struct {
	HistoryOf
	Goal int64 `query:"goal" minimum:"0" default:"1" doc:"The least score of a day that counts for a streak"`
}

type bestDay struct {
	Date  string `json:"date" format:"date" doc:"The day, in the board's zone" example:"2026-11-20"`
	Score int64  `json:"score" doc:"Steps, coins or points" example:"12345"`
}

type streak struct {
	Current int `json:"current" doc:"Days in a row up to now. A day that is not over yet counts if it has reached the goal, and otherwise ends no streak" example:"4"`
	Longest int `json:"longest" doc:"The most days in a row" example:"12"`
}

// summary holds the sums of a user's days.
type summary struct {
	Week    int64    `json:"week" doc:"The sum of the days since Monday, today included" example:"41000"`
	Month   int64    `json:"month" doc:"The sum of the days since the first of the month, today included" example:"180000"`
	Average *int64   `json:"average" doc:"The average of the finished days that have a score; null without one" example:"8100"`
	Best    *bestDay `json:"best" doc:"The day with the highest score, the earliest of equal ones; null without scores"`
	Streak  streak   `json:"streak" doc:"Days in a row with the goal or more"`
}

func (h *historyHandlers) sum(ctx context.Context, q ranking.HistoryQuery, in *summaryInput) (*output[summary], error) {
	sums, err := h.history.DaySums(ctx, q, in.Goal)
	if err != nil {
		return nil, err
	}
	shown := summary{
		Week: sums.Week, Month: sums.Month, Average: sums.Average,
		Streak: streak{Current: sums.CurrentStreak, Longest: sums.LongestStreak},
	}
	if sums.Best != nil {
		shown.Best = &bestDay{Date: sums.Best.Date.String(), Score: sums.Best.Score}
	}
	return &output[summary]{shown}, nil
}
