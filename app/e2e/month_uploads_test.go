package e2e_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"stepboard/models"
)

// accept records an upload: the larger total counts, and of equal ones the
// first.
func (m *month) accept(user, day int, d dayScore) {
	if before, ok := m.days[day][user]; !ok || d.score > before.score {
		m.days[day][user] = d
	}
}

// total is an uploaded total of a user's day.
type total struct{ user, day, score int }

// onTime reports whether a time lies between two moments of the test, on the
// clock of the processes.
func (m *month) onTime(at, from, to time.Time) bool {
	from, to = from.Add(m.cfg.Clock.Offset-time.Millisecond), to.Add(m.cfg.Clock.Offset+time.Millisecond)
	return !at.Before(from) && !at.After(to)
}

// byPhone uploads totals of one user in one request and returns when they were
// accepted.
func (m *month) byPhone(url string, totals ...total) []dayScore {
	items := make([]string, len(totals))
	for i, t := range totals {
		items[i] = fmt.Sprintf(`{"date":%q,"score":%d}`, m.date(t.day), t.score)
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
	m.call(m.phones[totals[0].user], "POST", url+"/v1/boards/steps/scores", body, &answer)
	echoed := make([]dayScore, len(totals))
	for i, t := range totals {
		if len(answer.Accepted) != len(totals) || answer.Accepted[i].Date != m.date(t.day) || answer.Accepted[i].Score != t.score {
			m.t.Errorf("%s was accepted as %+v", body, answer)
			continue
		}
		echoed[i] = dayScore{t.score, answer.Accepted[i].ReachedAt.Time()}
		if !m.onTime(echoed[i].reachedAt, from, time.Now()) {
			m.t.Errorf("%s was accepted at %v", body, echoed[i].reachedAt)
		}
	}
	return echoed
}

// batch uploads totals of many users in one request.
func (m *month) batch(url string, totals []total) {
	var body bytes.Buffer
	for i, t := range totals {
		body.WriteString([]string{`{"scores":[`, `,`}[min(i, 1)])
		fmt.Fprintf(&body, `{"user_id":"%d","date":%q,"score":%d}`, t.user, m.date(t.day), t.score)
	}
	body.WriteString("]}")
	var answer struct {
		Accepted int
		Rejected []any
	}
	m.call(m.service, "POST", url+"/v1/boards/steps/scores/batch", body.String(), &answer)
	if answer.Accepted != len(totals) || len(answer.Rejected) != 0 {
		m.t.Errorf("of %d totals %d were accepted: %v", len(totals), answer.Accepted, answer.Rejected)
	}
}

// byBatch uploads the first totals of users' days. All totals of a batch are
// accepted at the same time, which it reads from one of them.
func (m *month) byBatch(url string, totals []total) {
	for batch := range slices.Chunk(totals, 1000) {
		from := time.Now()
		m.batch(url, batch)
		to := time.Now()
		one := batch[len(batch)/2]
		var me struct {
			Score     int
			ReachedAt models.Timestamp `json:"reached_at"`
		}
		m.call(m.service, "GET", fmt.Sprintf("%s/v1/boards/steps/me?user_id=%d&date=%s", url, one.user, m.date(one.day)), "", &me)
		if me.Score != one.score || !m.onTime(me.ReachedAt.Time(), from, to) {
			m.t.Errorf("%+v is answered as %d, accepted at %v", one, me.Score, me.ReachedAt.Time())
		}
		for _, t := range batch {
			m.accept(t.user, t.day, dayScore{t.score, me.ReachedAt.Time()})
		}
	}
}

// offline reports whether a phone has no connection on a day. It uploads that
// day's total on the next day.
func (m *month) offline(user, day int) bool {
	return day < monthDays-1 && (user/20+day)%5 == 0
}

// uploadedLate reports whether the backend uploads a user's total a day late.
func (m *month) uploadedLate(user, day int) bool {
	return day < monthDays-1 && (user+day)%11 == 0
}

// upload uploads a day, and the remaining totals of the day before.
func (m *month) upload(url string, day int) {
	var totals []total
	var phones []int
	for _, user := range m.users {
		if m.phones[user] != "" {
			phones = append(phones, user)
			continue
		}
		if score, ok := m.steps(user, day-1); ok && m.uploadedLate(user, day-1) {
			totals = append(totals, total{user, day - 1, score})
		}
		if score, ok := m.steps(user, day); ok && !m.uploadedLate(user, day) {
			totals = append(totals, total{user, day, score})
		}
	}
	m.byBatch(url, totals)
	if day%4 >= 2 {
		// Repeated totals, and on some days smaller ones, change nothing.
		again := slices.Clone(totals[:min(len(totals), 1000)])
		for i := range again {
			again[i].score = max(0, again[i].score-day%4+2)
		}
		m.batch(url, again)
	}
	sent := make([]phoneDay, len(phones))
	inParallel(len(phones), func(i int) { sent[i] = m.phone(url, phones[i], day) })
	for i, user := range phones {
		for _, upload := range sent[i] {
			m.accept(user, upload.day, upload.dayScore)
		}
	}
}

// phoneDay is the totals that a phone has uploaded on a day, in their order.
type phoneDay []struct {
	day int
	dayScore
}

// phone uploads a phone's day, in one of several ways.
func (m *month) phone(url string, user, day int) (sent phoneDay) {
	send := func(totals ...total) {
		for i, d := range m.byPhone(url, totals...) {
			sent = append(sent, struct {
				day int
				dayScore
			}{totals[i].day, d})
		}
	}
	yesterday, walked := m.steps(user, day-1)
	kept := walked && m.offline(user, day-1)
	today, walked := m.steps(user, day)
	walks := walked && !m.offline(user, day)
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
