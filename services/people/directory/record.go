package directory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"stepboard/models"
)

const (
	// format is the format of an encoded record. A copy in another format is ignored
	// by readers, and replaced by one of a later format.
	format = 3
	// formats is the number of formats that a stamp distinguishes.
	formats = 256
	// stampBytes is the length of a stamp. The script in Redis compares stamps as
	// doubles, which are exact up to version 2^45.
	stampBytes = 16
)

var errRecord = errors.New("not a record")

// encode returns the copy of a record that is stored in Redis:
//
//	16 bytes  stamp: version × 256 + format, decimal with leading zeros
//	uvarint   row id × 2, and 1 more if the user hides from everybody
//	4 texts   user id, nickname, avatar, cover; each as its length, a uvarint, and its bytes
func encode(r models.Record) []byte {
	buf := make([]byte, 0, stampBytes+2*binary.MaxVarintLen64+len(r.User)+len(r.Nickname)+len(r.AvatarURL)+len(r.CoverURL))
	buf = fmt.Appendf(buf, "%0*d", stampBytes, r.Version*formats+format)
	row := uint64(r.Row) * 2
	if r.Hidden {
		row++
	}
	buf = binary.AppendUvarint(buf, row)
	for _, text := range [...]string{string(r.User), r.Nickname, r.AvatarURL, r.CoverURL} {
		buf = binary.AppendUvarint(buf, uint64(len(text)))
		buf = append(buf, text...)
	}
	return buf
}

// decode is the inverse of encode. The texts of the record share the memory of data.
// It returns errRecord for data in another format.
func decode(data string) (models.Record, error) {
	if len(data) < stampBytes {
		return models.Record{}, errRecord
	}
	stamp, err := strconv.ParseInt(data[:stampBytes], 10, 64)
	if err != nil || stamp < 0 || stamp%formats != format {
		return models.Record{}, errRecord
	}
	rest := data[stampBytes:]
	number, rest, ok := cutNumber(rest)
	row, hidden := models.RowID(number/2), number%2 == 1
	if !ok || !row.Valid() {
		return models.Record{}, errRecord
	}
	var texts [4]string
	for i := range texts {
		if texts[i], rest, ok = cutText(rest); !ok {
			return models.Record{}, errRecord
		}
	}
	user, err := models.ParseUserID(texts[0])
	if err != nil || rest != "" {
		return models.Record{}, errRecord
	}
	return models.Record{
		Row: row, User: user, Hidden: hidden, Version: stamp / formats,
		Profile: models.Profile{Nickname: texts[1], AvatarURL: texts[2], CoverURL: texts[3]},
	}, nil
}

// cutNumber returns the uvarint that s begins with, and the rest.
func cutNumber(s string) (n uint64, rest string, ok bool) {
	for i := range min(len(s), binary.MaxVarintLen64) {
		c := s[i]
		if c < 0x80 {
			// The tenth byte has the last bit of the number.
			return n | uint64(c)<<(7*i), s[i+1:], i < binary.MaxVarintLen64-1 || c <= 1
		}
		n |= uint64(c&0x7f) << (7 * i)
	}
	return 0, s, false
}

// cutText returns the text that s begins with, after its length as a uvarint, and the rest.
func cutText(s string) (text, rest string, ok bool) {
	n, rest, ok := cutNumber(s)
	if !ok || n > uint64(len(rest)) {
		return "", s, false
	}
	return rest[:n], rest[n:], true
}
