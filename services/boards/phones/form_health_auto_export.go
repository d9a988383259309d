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
			day := r.day(item.Date)
			if day.err == nil && item.Qty.fraction && item.Qty.steps < leastSum {
				item.Qty.err = notDaily("%s has less than %d steps and a fraction, as a sample that was not added up", day.date, leastSum)
			}
			if err := r.add(day, item.Qty, true, hint); err != nil {
				return err
			}
		}
	}
	return nil
}

// leastSum is the least sum of a day that may have a fraction: a sample of a minute has one, and few steps.
const leastSum = 100
