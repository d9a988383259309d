package handlers

import (
	"context"

	"stepboard/models"
)

// CursorSealer turns the position behind a page into a text for the client, and back.
type CursorSealer interface {
	Seal(c models.Cursor, scope ...string) string
	Open(ctx context.Context, text string, scope ...string) (models.Cursor, error)
}

// Paging picks a page of a list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most entries of a page"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// listing says how one list is read and shown.
type listing[Row, Answer any] struct {
	// scope names the list and everything else that its cursors are bound to, such as its filters.
	scope []string
	// read returns at most limit rows behind a position, which is zero for the beginning.
	read func(after models.Cursor, limit int) ([]Row, error)
	// position returns the position of a row.
	position func(Row) models.Cursor
	// show returns a row as the API has it.
	show func(Row) Answer
}

// page reads the page that a request picks. next is the cursor behind its last row; nil if
// no other page follows. CodeInvalidCursor if the cursor is not one of this scope.
func (l listing[Row, Answer]) page(ctx context.Context, cursors CursorSealer, p Paging) (page []Answer, next *string, err error) {
	var after models.Cursor
	if p.Cursor != "" {
		if after, err = cursors.Open(ctx, p.Cursor, l.scope...); err != nil {
			return nil, nil, err
		}
	}
	rows, err := l.read(after, p.Limit+1)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		next = new(cursors.Seal(l.position(rows[p.Limit-1]), l.scope...))
	}
	return answersOf(rows, l.show), next, nil
}

// optionalDate parses a date of the query. It returns nil if text is empty.
func optionalDate(location, text string) (*models.Date, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // a date that is left out is no error
	}
	day, err := models.ParseDate(text)
	if err != nil {
		return nil, models.Invalid(location, err.Error())
	}
	return &day, nil
}

// optionalDates parses the first and the last day of the query. It returns nil for one that is empty.
func optionalDates(from, to string) (first, last *models.Date, err error) {
	if first, err = optionalDate("query.from", from); err != nil {
		return nil, nil, err
	}
	last, err = optionalDate("query.to", to)
	return first, last, err
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
