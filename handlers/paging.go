package handlers

import "stepboard/models"

// optionalDate reads a date of the query that may be left out.
func optionalDate(location, text string) (*models.Date, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // a date that was left out is no error
	}
	day, err := models.ParseDate(text)
	if err != nil {
		return nil, models.Invalid(location, err.Error())
	}
	return &day, nil
}

// Paging picks a page of a list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most entries of a page"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

// nextByID is the cursor behind a row of a list that is ordered by its id.
func nextByID(id int64, scope ...string) string {
	// A place has a user; here it stands for nobody.
	return models.EncodeCursor(models.Cursor{Key: id, User: 1}, scope...)
}

// beforeID is the id behind which a page of such a list begins; 0 at its
// newest.
func (p Paging) beforeID(scope ...string) (int64, error) {
	if p.Cursor == "" {
		return 0, nil
	}
	place, err := models.DecodeCursor(p.Cursor, scope...)
	return place.Key, err
}
