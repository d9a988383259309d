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
	format = 2
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
//	3 texts   user id, nickname, avatar; each as its length, a uvarint, and its bytes
func encode(r models.Record) []byte {
	buf := make([]byte, 0, stampBytes+2*binary.MaxVarintLen64+len(r.User)+len(r.Nickname)+len(r.AvatarURL))
	buf = fmt.Appendf(buf, "%0*d", stampBytes, r.Version*formats+format)
	row := uint64(r.Row) * 2
	if r.Hidden {
		row++
	}
	buf = binary.AppendUvarint(buf, row)
	for _, text := range [...]string{string(r.User), r.Nickname, r.AvatarURL} {
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
	var texts [3]string
	for i := range texts {
		var n uint64
		if n, rest, ok = cutNumber(rest); !ok || n > uint64(len(rest)) {
			return models.Record{}, errRecord
		}
		texts[i], rest = rest[:n], rest[n:]
	}
	user, err := models.ParseUserID(texts[0])
	if err != nil || rest != "" {
		return models.Record{}, errRecord
	}
	return models.Record{
		Row: row, User: user, Hidden: hidden, Version: stamp / formats,
		Profile: models.Profile{Nickname: texts[1], AvatarURL: texts[2]},
	}, nil
}

// cutNumber returns the uvarint that s begins with, and the rest.
func cutNumber(s string) (n uint64, rest string, ok bool) {
	head := s[:min(len(s), binary.MaxVarintLen64)]
	n, size := binary.Uvarint([]byte(head))
	if size <= 0 {
		return 0, s, false
	}
	return n, s[size:], true
}
