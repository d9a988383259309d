package phones

import "github.com/go-json-experiment/json/jsontext"

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
		if err := r.add(r.day(item.Date), item.Value, true, "add the steps up by day in the shortcut"); err != nil {
			return err
		}
	}
	return nil
}
