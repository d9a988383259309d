package e2e_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"stepboard/models"
)

// accept notes an upload: the larger total counts, and of equal ones the first.
func (w *month) accept(user, day int, d dayScore) {
	if before, ok := w.days[day][user]; !ok || d.score > before.score {
		w.days[day][user] = d
	}
}

// total is what is uploaded for a user's day.
type total struct{ user, day, score int }

// onTime tells whether a time lies between two moments of the test, on the
// clock of the processes.
func (w *month) onTime(at, from, to time.Time) bool {
	from, to = from.Add(w.cfg.Clock.Offset-time.Millisecond), to.Add(w.cfg.Clock.Offset+time.Millisecond)
	return !at.Before(from) && !at.After(to)
}

// byPhone uploads one user's totals in one request. The answer says when they
// were accepted.
func (w *month) byPhone(url string, totals ...total) []dayScore {
	items := make([]string, len(totals))
	for i, t := range totals {
		items[i] = fmt.Sprintf(`{"date":%q,"score":%d}`, w.date(t.day), t.score)
	}
	body := items[0]
	if len(items) > 1 {
		body = `{"scores":[` + strings.Join(items, ",") + `]}`
	}
	var answer struct {
		Accepted []struct {
			Date      string
			Score     int
			ReachedAt models.Timestamp `json:"reached_at"`
		}
	}
	from := time.Now()
	w.call(w.phones[totals[0].user], "POST", url+"/v1/boards/steps/scores", body, &answer)
	echoed := make([]dayScore, len(totals))
	for i, t := range totals {
		if len(answer.Accepted) != len(totals) || answer.Accepted[i].Date != w.date(t.day) || answer.Accepted[i].Score != t.score {
			w.t.Errorf("%s was accepted as %+v", body, answer)
			continue
		}
		echoed[i] = dayScore{t.score, answer.Accepted[i].ReachedAt.Time()}
		if !w.onTime(echoed[i].reachedAt, from, time.Now()) {
			w.t.Errorf("%s was accepted at %v", body, echoed[i].reachedAt)
		}
	}
	return echoed
}

// batch uploads totals of many users in one request.
func (w *month) batch(url string, totals []total) {
	var body bytes.Buffer
	for i, t := range totals {
		body.WriteString([]string{`{"scores":[`, `,`}[min(i, 1)])
		fmt.Fprintf(&body, `{"user_id":"%d","date":%q,"score":%d}`, t.user, w.date(t.day), t.score)
	}
	body.WriteString("]}")
	var answer struct {
		Accepted int
		Rejected []any
	}
	w.call(w.service, "POST", url+"/v1/boards/steps/scores/batch", body.String(), &answer)
	if answer.Accepted != len(totals) || len(answer.Rejected) != 0 {
		w.t.Errorf("of %d totals %d were accepted: %v", len(totals), answer.Accepted, answer.Rejected)
	}
}

// byBatch uploads first totals of users' days. All of a batch are accepted at
// one moment, which is read off one of them.
func (w *month) byBatch(url string, totals []total) {
	for batch := range slices.Chunk(totals, 1000) {
		from := time.Now()
		w.batch(url, batch)
		to := time.Now()
		one := batch[len(batch)/2]
		var me struct {
			Score     int
			ReachedAt models.Timestamp `json:"reached_at"`
		}
		w.call(w.service, "GET", fmt.Sprintf("%s/v1/boards/steps/me?user_id=%d&date=%s", url, one.user, w.date(one.day)), "", &me)
		if me.Score != one.score || !w.onTime(me.ReachedAt.Time(), from, to) {
			w.t.Errorf("%+v is answered as %d, accepted at %v", one, me.Score, me.ReachedAt.Time())
		}
		for _, t := range batch {
			w.accept(t.user, t.day, dayScore{t.score, me.ReachedAt.Time()})
		}
	}
}

// offline tells whether a phone has no connection on a day. It sends that
// day's total on the next.
func (w *month) offline(user, day int) bool {
	return day < monthDays-1 && (user/20+day)%5 == 0
}

// uploadedLate tells whether a backend sends a user's total a day late.
func (w *month) uploadedLate(user, day int) bool {
	return day < monthDays-1 && (user+day)%11 == 0
}

// upload uploads a day, with what was left over from the day before.
func (w *month) upload(url string, day int) {
	var totals []total
	var phones []int
	for _, user := range w.users {
		if w.phones[user] != "" {
			phones = append(phones, user)
			continue
		}
		if score, ok := w.steps(user, day-1); ok && w.uploadedLate(user, day-1) {
			totals = append(totals, total{user, day - 1, score})
		}
		if score, ok := w.steps(user, day); ok && !w.uploadedLate(user, day) {
			totals = append(totals, total{user, day, score})
		}
	}
	w.byBatch(url, totals)
	if day%4 >= 2 {
		// Sent again, and on some days less than was sent: it changes nothing.
		again := slices.Clone(totals[:min(len(totals), 1000)])
		for i := range again {
			again[i].score = max(0, again[i].score-day%4+2)
		}
		w.batch(url, again)
	}
	sent := make([]phoneDay, len(phones))
	inParallel(len(phones), func(i int) { sent[i] = w.phone(url, phones[i], day) })
	for i, user := range phones {
		for _, upload := range sent[i] {
			w.accept(user, upload.day, upload.dayScore)
		}
	}
}

// phoneDay is what a phone has sent on a day, in its order.
type phoneDay []struct {
	day int
	dayScore
}

// phone uploads a phone's day, in different ways.
func (w *month) phone(url string, user, day int) (sent phoneDay) {
	send := func(totals ...total) {
		for i, d := range w.byPhone(url, totals...) {
			sent = append(sent, struct {
				day int
				dayScore
			}{totals[i].day, d})
		}
	}
	yesterday, walked := w.steps(user, day-1)
	kept := walked && w.offline(user, day-1)
	today, walked := w.steps(user, day)
	walks := walked && !w.offline(user, day)
	switch {
	case kept && walks:
		send(total{user, day - 1, yesterday}, total{user, day, today})
		return sent
	case kept:
		send(total{user, day - 1, yesterday})
	}
	if !walks {
		return sent
	}
	how := (user/20 + day) % 4
	if how == 1 {
		send(total{user, day, today / 2})
	}
	send(total{user, day, today})
	if how == 2 {
		send(total{user, day, today})
		send(total{user, day, today / 2})
	}
	return sent
}
