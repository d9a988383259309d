package handlers

import (
	"strings"

	"stepboard/models"
	"stepboard/services/boards/ingest"
)

// maxBatch is the largest number of totals in one batch.
const maxBatch = 1000

// parseBatchFast parses a batch in the form that programs usually send: items
// with nothing but user_id, date and score, each once, in any order and without
// escapes. For every other body, valid or not, it returns false; decodeBatch
// then parses the body or reports what is wrong, in four times the time. Both
// return the same uploads for a body that parseBatchFast accepts.
func parseBatchFast(body []byte) ([]ingest.Upload, bool) {
	r := &batchReader{rest: string(body)} // the user ids are parts of it
	if !r.skip('{') || r.readString() != "scores" || !r.skip(':') || !r.skip('[') {
		return nil, false
	}
	uploads := make([]ingest.Upload, 0, maxBatch)
	for more := true; more; more = r.skip(',') {
		upload, ok := r.readItem()
		if !ok || len(uploads) == maxBatch {
			return nil, false
		}
		uploads = append(uploads, upload)
	}
	return uploads, r.skip(']') && r.skip('}') && r.atEnd()
}

// batchReader reads the JSON of parseBatchFast. After unexpected input its
// results are meaningless, but they never form a valid item.
type batchReader struct {
	rest string

	// The last date and its text: most items of a batch have the same date.
	dateText string
	date     models.Date
}

// readItem reads one item. It must have the three keys, each once.
func (r *batchReader) readItem() (upload ingest.Upload, ok bool) {
	var user, date, score bool
	for _, before := range []byte("{,,") {
		if !r.skip(before) {
			return upload, false
		}
		key := r.readString()
		if !r.skip(':') {
			return upload, false
		}
		switch key {
		case "user_id":
			upload.User, user = r.readUser()
		case "date":
			upload.Date, date = r.readDate()
		case "score":
			upload.Score, score = r.readScore()
		default:
			return upload, false
		}
	}
	return upload, user && date && score && r.skip('}')
}

func (r *batchReader) readUser() (models.UserID, bool) {
	id, err := models.ParseUserID(r.readString())
	return id, err == nil
}

func (r *batchReader) readDate() (models.Date, bool) {
	text := r.readString()
	if text == "" || text != r.dateText {
		date, err := models.ParseDate(text)
		if err != nil {
			return 0, false
		}
		r.date, r.dateText = date, text
	}
	return r.date, true
}

// readScore reads a whole number without a sign, of at most 18 digits, so that
// it fits in an int64.
func (r *batchReader) readScore() (n int64, ok bool) {
	r.skipSpace()
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

// readString reads a string. It returns "" for one with escapes, which is not a valid
// id, date or key.
func (r *batchReader) readString() string {
	if !r.skip('"') {
		return ""
	}
	end := strings.IndexByte(r.rest, '"')
	if end < 0 || strings.IndexByte(r.rest[:end], '\\') >= 0 {
		return ""
	}
	text := r.rest[:end]
	r.rest = r.rest[end+1:]
	return text
}

// skip reads one character and the space before it. It returns false if
// another character follows.
func (r *batchReader) skip(c byte) bool {
	r.skipSpace()
	if r.rest == "" || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *batchReader) atEnd() bool {
	r.skipSpace()
	return r.rest == ""
}

func (r *batchReader) skipSpace() {
	for r.rest != "" && (r.rest[0] == ' ' || r.rest[0] == '\n' || r.rest[0] == '\t' || r.rest[0] == '\r') {
		r.rest = r.rest[1:]
	}
}
