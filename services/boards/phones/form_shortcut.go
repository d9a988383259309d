package phones

import (
	"github.com/go-json-experiment/json/jsontext"

	"stepboard/models"
)

// shortcuts reads what an iPhone's Shortcuts send: a list of {"type","value","date"}, or one of them.
// Numbers are text there. Other types are skipped.
// Published: github.com/CodeWithCJ/SparkyFitness, issue 59.
func (r *reader) shortcuts(list []jsontext.Value) error {
	for _, value := range list {
		var kind struct {
			Type jsontext.Value `json:"type"`
		}
		if err := decode(value, &kind); err != nil {
			return err
		}
		switch string(kind.Type) {
		case `"step"`, `"steps"`, `"step_count"`:
		default:
			continue
		}
		var item struct {
			Value number `json:"value"`
			Date  string `json:"date"`
		}
		if err := decode(value, &item); err != nil {
			return err
		}
		if !item.Value.known {
			continue
		}
		date, err := r.day(item.Date)
		if err != nil {
			return err
		}
		if err := r.add(date, item.Value.steps, true); err != nil {
			return withHint(err, "add the steps up by day in the shortcut")
		}
	}
	return nil
}

// withHint adds to an error of steps that are no totals of days what to set in the app.
func withHint(err error, hint string) error {
	if models.CodeOf(err) == models.CodeNotDaily {
		return notDaily("%s (%s)", err.(*models.Error).Message, hint) //nolint:errorlint,forcetypeassert // the code says so
	}
	return err
}
