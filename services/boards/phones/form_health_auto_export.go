package phones

import "github.com/go-json-experiment/json/jsontext"

// healthAutoExport reads what Health Auto Export of an iPhone sends: {"data":{"metrics":[…]}}, where the
// metric step_count has items {"date":"2026-11-20 00:00:00 +0800","qty":1234.5}. They are days if the app
// summarises by day, otherwise minutes or hours. Other metrics and workouts are skipped.
// Published: github.com/Lybron/health-auto-export, wiki, "API Export - JSON Format".
func (r *reader) healthAutoExport(data jsontext.Value) error {
	var body struct {
		Metrics []struct {
			Name string         `json:"name"`
			Data jsontext.Value `json:"data"` // items of other metrics have other forms
		} `json:"metrics"`
	}
	if err := decode(data, &body); err != nil {
		return err
	}
	const hint = `in Health Auto Export, switch "Summarize Data" on and group by day`
	for _, metric := range body.Metrics {
		if metric.Name != "step_count" || len(metric.Data) == 0 {
			continue
		}
		var items []struct {
			Date string `json:"date"`
			Qty  number `json:"qty"`
		}
		if err := decode(metric.Data, &items); err != nil {
			return err
		}
		for _, item := range items {
			if !item.Qty.known {
				continue
			}
			date, err := r.day(item.Date)
			if err != nil {
				return withHint(err, hint)
			}
			if err := r.add(date, item.Qty.steps, true); err != nil {
				return withHint(err, hint)
			}
		}
	}
	return nil
}
