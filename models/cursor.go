package models

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// Cursor is a position in an ordered list: the sort key of the last entry that
// a page showed, and its user. The key is a composite in rankings, a time in
// lists of requests.
type Cursor struct {
	Key  int64
	User RowID
}

const (
	cursorVersion   = 1
	cursorSumBytes  = 8
	cursorTextLimit = 64
)

// EncodeCursor returns the text of a cursor, which the client sends with its next
// call. The scope holds everything else that the next call must agree on (call,
// board, bucket, viewer); the text has only its checksum.
func EncodeCursor(c Cursor, scope ...string) string {
	buf := make([]byte, 0, 32)
	buf = append(buf, cursorVersion)
	buf = binary.AppendUvarint(buf, uint64(c.Key))
	buf = binary.AppendUvarint(buf, uint64(c.User))
	buf = append(buf, cursorSum(buf, scope)...)
	return base64.RawURLEncoding.EncodeToString(buf)
}

// DecodeCursor is the inverse of EncodeCursor for the same scope. A cursor that was
// changed or has another scope is CodeInvalidCursor.
func DecodeCursor(cursor string, scope ...string) (Cursor, error) {
	invalid := Errorf(CodeInvalidCursor, "this cursor is not of this list; start again without one")
	if len(cursor) > cursorTextLimit {
		return Cursor{}, invalid
	}
	buf, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(buf) < 1+cursorSumBytes || buf[0] != cursorVersion {
		return Cursor{}, invalid
	}
	body, sum := buf[:len(buf)-cursorSumBytes], buf[len(buf)-cursorSumBytes:]
	if string(sum) != string(cursorSum(body, scope)) {
		return Cursor{}, invalid
	}
	key, n := binary.Uvarint(body[1:])
	if n <= 0 {
		return Cursor{}, invalid
	}
	user, m := binary.Uvarint(body[1+n:])
	if m <= 0 || 1+n+m != len(body) || !RowID(user).Valid() {
		return Cursor{}, invalid
	}
	return Cursor{Key: int64(key), User: RowID(user)}, nil
}

// cursorSum returns the checksum by which damaged cursors and cursors of other lists
// are recognized. It is not secret: a forged cursor only gives access to a page that
// the caller may read anyway.
func cursorSum(body []byte, scope []string) []byte {
	h := sha256.New()
	h.Write(body)
	h.Write([]byte{0})
	h.Write([]byte(strings.Join(scope, "\x00")))
	return h.Sum(nil)[:cursorSumBytes]
}
