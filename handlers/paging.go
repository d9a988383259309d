package handlers

import (
	"context"

	"stepboard/models"
)

// CursorSealer turns the position behind a page into a text for the client, and back. An empty text is the
// zero position.
type CursorSealer interface {
	Seal(c models.Cursor, scope ...string) string
	Open(ctx context.Context, text string, scope ...string) (models.Cursor, error)
}

// Paging picks a page of a list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most entries of a page"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// listRow is a row of a list that is read in pages.
type listRow interface {
	// Cursor returns the position of the row in the list.
	Cursor() models.Cursor
}

// pageOf reads the page of a list that a request picks. read returns at most limit rows behind a
// position, which is zero for the beginning, and show returns a row as the API has it. scope names the
// list and everything else that its cursors are bound to, such as its filters. next is the cursor behind
// the last row; nil if no other page follows. CodeInvalidCursor if the cursor is not one of this scope.
func pageOf[Row listRow, Answer any](
	ctx context.Context, cursors CursorSealer, p Paging, show func(Row) Answer,
	read func(after models.Cursor, limit int) ([]Row, error), scope ...string,
) (page []Answer, next *string, err error) {
	after, err := cursors.Open(ctx, p.Cursor, scope...)
	if err != nil {
		return nil, nil, err
	}
	rows, err := read(after, p.Limit+1)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		next = new(cursors.Seal(rows[p.Limit-1].Cursor(), scope...))
	}
	return answersOf(rows, show), next, nil
}

// dateOf returns the day of a parameter or field whose format is date: Huma has refused all others.
func dateOf(text string) models.Date {
	day, _ := models.ParseDate(text)
	return day
}

// optionalDate is dateOf of a parameter that may be left out; nil for one that is.
func optionalDate(text string) *models.Date {
	if text == "" {
		return nil
	}
	return new(dateOf(text))
}

// LocalTime gives the offset of a user's clock.
type LocalTime struct {
	UTCOffset string `query:"utc_offset" doc:"How far the user's clock is ahead of UTC, from -12:00 to +14:00, or Z. Boards with time_zone local need it to know the user's today; others ignore it" example:"+08:00"`
}

// offset parses the offset. It returns the unknown offset if the request has none.
func (in LocalTime) offset() (models.UTCOffset, error) {
	if in.UTCOffset == "" {
		return models.UTCOffset{}, nil
	}
	offset, err := models.ParseUTCOffset(in.UTCOffset)
	if err != nil {
		return models.UTCOffset{}, models.Invalid("query.utc_offset", err.Error())
	}
	return offset, nil
}

// answersOf returns the answers of rows; an empty list for none.
func answersOf[Row, Answer any](rows []Row, show func(Row) Answer) []Answer {
	answers := make([]Answer, len(rows))
	for i, row := range rows {
		answers[i] = show(row)
	}
	return answers
}
