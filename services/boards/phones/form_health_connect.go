package phones

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"stepboard/services/boards/catalog"
)

// healthConnect reads what Health Connect Webhook of Android sends: a list for each kind, steps as
// {"count","start_time","end_time"}, always in UTC. By default there is a record for each day, from the
// phone's midnight on; others are intervals. Its test button sends invented steps with "test": true.
// Other kinds are skipped. Published: github.com/mcnaveen/health-connect-webhook, docs/webhook.md.
func (r *reader) healthConnect(whole jsontext.Value) error {
	var body struct {
		Test        bool `json:"test"`
		Incremental bool `json:"incremental"`
		Steps       []struct {
			Count number `json:"count"`
			Start string `json:"start_time"`
			End   string `json:"end_time"`
		} `json:"steps"`
	}
	if err := decode(whole, &body); err != nil {
		return err
	}
	const hint = "in Health Connect Webhook, send steps as totals of days"
	switch {
	case body.Test:
		return nil
	case body.Incremental && len(body.Steps) > 0:
		return withHint(notDaily("these are the steps since the last time"), hint)
	}
	for _, record := range body.Steps {
		if err := r.add(r.dayOf(record.Start, record.End), record.Count, true, hint); err != nil {
			return err
		}
	}
	return nil
}

// dayOf returns the day of a record from one moment to another.
func (r *reader) dayOf(from, to string) day {
	start, err := parseTime(from)
	if err != nil {
		return day{err: err}
	}
	d := r.dayFrom(start)
	if to == "" || d.err != nil {
		return d
	}
	end, err := parseTime(to)
	if err == nil {
		if next, again := catalog.Moments(d.date+1, 0, r.zone); end.After(next) && end.After(again) {
			err = notDaily("a record is from %s to %s, which is more than a day", start.Format(time.RFC3339), end.Format(time.RFC3339))
		}
	}
	if err != nil {
		return day{nearest: &d.date, err: err}
	}
	return d
}
