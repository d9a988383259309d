package handlers

import (
	"bytes"

	"stepboard/models"
	"stepboard/services/ingest"
)

// parseBatchFast reads a batch as programs write it: nothing but items with
// user_id, date and score, each once, in any order, without escapes. It knows
// no errors: of whatever else there is, right or wrong, it answers false and
// leaves it to the decoder, which takes ten times as long. What it does read
// it reads as the decoder would.
func parseBatchFast(body []byte) ([]ingest.Upload, bool) {
	r := &batchReader{rest: body}
	if !r.take('{') || string(r.text()) != "scores" || !r.take(':') || !r.take('[') {
		return nil, false
	}
	uploads := make([]ingest.Upload, 0, maxBatch)
	for more := true; more; more = r.take(',') {
		upload, ok := r.item()
		if !ok || len(uploads) == maxBatch {
			return nil, false
		}
		uploads = append(uploads, upload)
	}
	return uploads, r.take(']') && r.take('}') && r.end()
}

// batchReader reads the JSON of plainBatch. After something else what it
// answers means nothing, but never anything that would be taken for an item.
type batchReader struct {
	rest []byte

	// The date that was read last: most items of a batch have the same.
	dateText []byte
	date     models.Date
}

// item reads one item: three keys, of which none was missing at the end.
func (r *batchReader) item() (upload ingest.Upload, ok bool) {
	var user, date, score bool
	for _, before := range []byte("{,,") {
		if !r.take(before) {
			return upload, false
		}
		key := r.text()
		if !r.take(':') {
			return upload, false
		}
		switch string(key) {
		case "user_id":
			upload.User, user = r.user()
		case "date":
			upload.Date, date = r.day()
		case "score":
			upload.Score, score = r.score()
		default:
			return upload, false
		}
	}
	return upload, user && date && score && r.take('}')
}

func (r *batchReader) user() (models.UserID, bool) {
	id, err := models.ParseUserID(string(r.text()))
	return id, err == nil
}

func (r *batchReader) day() (models.Date, bool) {
	text := r.text()
	if len(text) == 0 || !bytes.Equal(text, r.dateText) {
		date, err := models.ParseDate(string(text))
		if err != nil {
			return 0, false
		}
		r.date, r.dateText = date, text
	}
	return r.date, true
}

// score reads a whole number without sign, of as many digits as surely fit.
func (r *batchReader) score() (n int64, ok bool) {
	r.space()
	i := 0
	for i < len(r.rest) && r.rest[i] >= '0' && r.rest[i] <= '9' {
		n = n*10 + int64(r.rest[i]-'0')
		i++
	}
	if i == 0 || i > 18 || i > 1 && r.rest[0] == '0' {
		return 0, false
	}
	r.rest = r.rest[i:]
	return n, true
}

// text reads a string. One with an escape ends too early or late, and is then
// no id, date or key.
func (r *batchReader) text() []byte {
	if !r.take('"') {
		return nil
	}
	end := bytes.IndexByte(r.rest, '"')
	if end < 0 {
		return nil
	}
	text := r.rest[:end]
	r.rest = r.rest[end+1:]
	return text
}

// take reads one character, if it comes next.
func (r *batchReader) take(c byte) bool {
	r.space()
	if len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *batchReader) end() bool {
	r.space()
	return len(r.rest) == 0
}

func (r *batchReader) space() {
	for len(r.rest) > 0 && (r.rest[0] == ' ' || r.rest[0] == '\n' || r.rest[0] == '\t' || r.rest[0] == '\r') {
		r.rest = r.rest[1:]
	}
}
