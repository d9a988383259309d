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

// beforeID returns the id before which the page of a list begins that is
// ordered by descending id; 0 means that it begins with the newest.
func (p Paging) beforeID(ctx context.Context, cursors CursorSealer, scope ...string) (int64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	cursor, err := cursors.Open(ctx, p.Cursor, scope...)
	if err != nil {
		return 0, err
	}
	return cursor.Key, nil
}

// cursorAfterID returns the cursor behind a row of a list that is ordered by
// descending id.
func cursorAfterID(cursors CursorSealer, id int64, scope ...string) string {
	return cursors.Seal(models.Cursor{Key: id}, scope...)
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

// LocalTime gives the offset of a user's clock.
type LocalTime struct {
	UTCOffset string `query:"utc_offset" doc:"How far the user's clock is ahead of UTC, from -12:00 to +14:00, or Z. Boards with time_zone local need it to know the user's today; others ignore it" example:"+08:00"`
}

// offset parses the offset. It is not known if it was left out.
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

// showPage returns the answers of a page of at most limit rows of a list that was read up
// to limit+1, and the cursor behind the last one; nil if no other page follows.
func showPage[Row, Answer any](list []Row, limit int, show func(Row) Answer, behind func(Row) string) (page []Answer, next *string) {
	if len(list) > limit {
		list = list[:limit]
		cursor := behind(list[limit-1])
		next = &cursor
	}
	return answersOf(list, show), next
}

// answersOf returns the answers of rows; an empty list for none.
func answersOf[Row, Answer any](rows []Row, show func(Row) Answer) []Answer {
	answers := make([]Answer, len(rows))
	for i, row := range rows {
		answers[i] = show(row)
	}
	return answers
}
