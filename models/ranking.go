package models

import (
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Source names the store that a response was read from. Each bucket is complete in
// one store.
type Source string

// The sources of a response.
const (
	// SourceHot is Redis.
	SourceHot Source = "hot"
	// SourceArchive is SQL.
	SourceArchive Source = "archive"
)

// RankedEntry is one line of a ranking.
type RankedEntry struct {
	Rank      int64     `json:"rank" doc:"Place in this ranking, from 1; no two users share one" example:"3"`
	User      UserID    `json:"user_id" nullable:"true" doc:"The user; null in anonymous lines" example:"1001"`
	Nickname  string    `json:"nickname" doc:"Empty where the user has set none"`
	AvatarURL URL       `json:"avatar_url" doc:"Empty where the user has set none"`
	Anonymous bool      `json:"anonymous,omitempty" doc:"True in lines of global lists whose user is not shown to the caller; left out otherwise"`
	Score     int64     `json:"score" doc:"Steps, coins or points" example:"12345"`
	ReachedAt Timestamp `json:"reached_at" format:"date-time" doc:"When the user reached this score" example:"2026-11-20T13:00:00.123Z"`
	Days      int64     `json:"days,omitempty" doc:"Spans only: on how many of the days the user has a score"`

	Likes *int64 `json:"likes,omitempty" doc:"How many people who are shown to the caller like this score; only with include=likes, and left out while likes can't be read" example:"4"`
	Liked *bool  `json:"liked,omitempty" doc:"Whether the caller likes it; present where likes is" example:"false"`

	// Plain reports whether IsPlain is known to hold for the user's texts.
	Plain bool `json:"-"`
}

// Anonymize removes who the entry is about.
func (e *RankedEntry) Anonymize() {
	*e = RankedEntry{Rank: e.Rank, Anonymous: true, Score: e.Score, ReachedAt: e.ReachedAt, Days: e.Days}
}

// Describe adds the record of the entry's user.
func (e *RankedEntry) Describe(record *PublicRecord) {
	e.User, e.Nickname, e.AvatarURL, e.Plain = record.User, record.Nickname, record.AvatarURL, record.Plain
}

// Champion is who leads a ranking of friends or of a group.
type Champion struct {
	User      UserID `json:"user_id" doc:"The user" example:"1001"`
	Nickname  string `json:"nickname" doc:"Empty if the user has set none"`
	AvatarURL URL    `json:"avatar_url" doc:"Empty if the user has set none"`
	CoverURL  string `json:"cover_url" doc:"The picture for the top of the ranking; empty if the user has set none"`
}

func (c *Champion) appendJSON(buf []byte) []byte {
	buf = append(buf, `{"user_id":`...)
	buf = appendString(buf, string(c.User))
	buf = append(buf, `,"nickname":`...)
	buf = appendString(buf, c.Nickname)
	buf = append(buf, `,"avatar_url":`...)
	buf = appendString(buf, c.AvatarURL.String())
	buf = append(buf, `,"cover_url":`...)
	return append(appendString(buf, c.CoverURL), '}')
}

// Ranking is a page of a ranked list.
type Ranking struct {
	Board      string        `json:"board" doc:"The board's name" example:"steps"`
	Date       *string       `json:"date" nullable:"true" format:"date" example:"2026-11-20" doc:"The day, in the board's zone; null in spans, and where the board has no days"`
	From       *string       `json:"from,omitempty" format:"date" doc:"Spans only: the first day"`
	To         *string       `json:"to,omitempty" format:"date" doc:"Spans only: the last day"`
	Source     Source        `json:"source" enum:"hot,archive" doc:"Where the answer comes from"`
	Final      bool          `json:"final" doc:"True once no more updates are taken for it"`
	Settling   *bool         `json:"settling,omitempty" doc:"Rolling boards only: true for a moment after the hour, while scores may still hold what has just left the window"`
	Total      int64         `json:"total" doc:"How many entries are ranked, on all pages together" example:"22"`
	Me         *RankedEntry  `json:"me" doc:"The caller's own line, on every page; null without a score"`
	Champion   *Champion     `json:"champion" doc:"Who leads this ranking, on every page; null if nobody has a score, and in global lists"`
	Entries    []RankedEntry `json:"entries" nullable:"false" doc:"This page, best first"`
	NextCursor *string       `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

// released holds the entries, *[]RankedEntry, of rankings that were released.
var released sync.Pool

// MakeEntries sets the ranking's entries to n empty ones.
func (r *Ranking) MakeEntries(n int) {
	if entries, ok := released.Get().(*[]RankedEntry); ok && cap(*entries) >= n {
		r.Entries = (*entries)[:n]
		return
	}
	r.Entries = make([]RankedEntry, n)
}

// Release gives the memory of the ranking's entries to rankings that are made later. The
// caller must be the only user of the entries, and not use them afterwards. A ranking need
// not be released.
func (r *Ranking) Release() {
	entries := r.Entries
	r.Entries = nil
	if len(entries) > 0 {
		clear(entries)
		released.Put(&entries)
	}
}

// AppendJSON appends the ranking as JSON to buf, at a tenth of what reflection costs. Rankings
// are most of what the service returns.
func (r *Ranking) AppendJSON(buf []byte) []byte {
	var times timeText
	buf = append(buf, `{"board":`...)
	buf = appendString(buf, r.Board)
	buf = append(buf, `,"date":`...)
	buf = appendNullable(buf, r.Date)
	if r.From != nil {
		buf = append(buf, `,"from":`...)
		buf = appendString(buf, *r.From)
	}
	if r.To != nil {
		buf = append(buf, `,"to":`...)
		buf = appendString(buf, *r.To)
	}
	buf = append(buf, `,"source":`...)
	buf = appendString(buf, string(r.Source))
	buf = append(buf, `,"final":`...)
	buf = strconv.AppendBool(buf, r.Final)
	if r.Settling != nil {
		buf = append(buf, `,"settling":`...)
		buf = strconv.AppendBool(buf, *r.Settling)
	}
	buf = append(buf, `,"total":`...)
	buf = strconv.AppendInt(buf, r.Total, 10)
	buf = append(buf, `,"me":`...)
	if r.Me == nil {
		buf = append(buf, "null"...)
	} else {
		buf = r.Me.appendJSON(buf, &times)
	}
	buf = append(buf, `,"champion":`...)
	if r.Champion == nil {
		buf = append(buf, "null"...)
	} else {
		buf = r.Champion.appendJSON(buf)
	}
	buf = append(buf, `,"entries":[`...)
	for i := range r.Entries {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = r.Entries[i].appendJSON(buf, &times)
	}
	buf = append(buf, `],"next_cursor":`...)
	buf = appendNullable(buf, r.NextCursor)
	return append(buf, '}')
}

func (e *RankedEntry) appendJSON(buf []byte, times *timeText) []byte {
	buf = append(buf, `{"rank":`...)
	buf = strconv.AppendInt(buf, e.Rank, 10)
	buf = e.appendUser(buf)
	buf = append(buf, `,"score":`...)
	buf = strconv.AppendInt(buf, e.Score, 10)
	buf = append(buf, `,"reached_at":"`...)
	buf = times.append(buf, e.ReachedAt)
	buf = append(buf, '"')
	if e.Days != 0 {
		buf = append(buf, `,"days":`...)
		buf = strconv.AppendInt(buf, e.Days, 10)
	}
	if e.Likes != nil {
		buf = append(buf, `,"likes":`...)
		buf = strconv.AppendInt(buf, *e.Likes, 10)
	}
	if e.Liked != nil {
		buf = append(buf, `,"liked":`...)
		buf = strconv.AppendBool(buf, *e.Liked)
	}
	return append(buf, '}')
}

// appendUser appends the members that describe the user, each after a comma.
func (e *RankedEntry) appendUser(buf []byte) []byte {
	if e.Anonymous {
		return append(buf, `,"user_id":null,"nickname":"","avatar_url":"","anonymous":true`...)
	}
	if e.Plain {
		buf = append(buf, `,"user_id":"`...)
		buf = append(buf, e.User...)
		buf = append(buf, `","nickname":"`...)
		buf = append(buf, e.Nickname...)
		buf = append(buf, `","avatar_url":"`...)
		buf = append(buf, e.AvatarURL.Begin...)
		buf = append(buf, e.AvatarURL.Rest...)
		return append(buf, '"')
	}
	buf = append(buf, `,"user_id":`...)
	buf = appendString(buf, string(e.User))
	buf = append(buf, `,"nickname":`...)
	buf = appendString(buf, e.Nickname)
	buf = append(buf, `,"avatar_url":`...)
	var memory [256]byte
	buf, _ = jsontext.AppendQuote(buf, append(append(memory[:0], e.AvatarURL.Begin...), e.AvatarURL.Rest...))
	return buf
}

func appendNullable(buf []byte, s *string) []byte {
	if s == nil {
		return append(buf, "null"...)
	}
	return appendString(buf, *s)
}

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(buf []byte, s string) []byte {
	buf, _ = jsontext.AppendQuote(buf, s) // the error says that there were such bytes
	return buf
}

// IsPlain reports whether appendString appends s without escapes.
func IsPlain(s string) bool {
	var buf [256]byte
	return len(appendString(buf[:0], s)) == len(s)+len(`""`) // an escape is longer than the character
}
