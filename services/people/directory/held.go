package directory

import (
	"encoding/binary"

	"stepboard/models"
)

const (
	// flagPlain is the bit of a held record whose texts but the cover are plain, as
	// models.IsPlain defines it.
	flagPlain = 1
	// flagHidden is the bit of a held record whose user hides from everybody.
	flagHidden = 2
	// flagCover is the bit of a held record that has a cover.
	flagCover = 4
)

// appendHeld appends a record as the process holds it to buf:
//
//	1 byte    flags
//	4 numbers uvarints: row id, version, number of the avatar's beginning, length of the user id
//	          user id
//	1 number  uvarint: length of the nickname
//	          nickname
//	1 number  uvarint: length of the cover's address, if there is one
//	          the cover's address
//	          the rest of the avatar's address
//
// The avatar's beginning is begin; its number is that in the table of beginnings.
func appendHeld(buf []byte, r *models.Record, begin string, number int) []byte {
	var flags byte
	if models.IsPlain(string(r.User)) && models.IsPlain(r.Nickname) && models.IsPlain(r.AvatarURL) {
		flags |= flagPlain
	}
	if r.Hidden {
		flags |= flagHidden
	}
	if r.CoverURL != "" {
		flags |= flagCover
	}
	buf = append(buf, flags)
	buf = binary.AppendUvarint(buf, uint64(r.Row))
	buf = binary.AppendUvarint(buf, uint64(r.Version))
	buf = binary.AppendUvarint(buf, uint64(number))
	buf = binary.AppendUvarint(buf, uint64(len(r.User)))
	buf = append(buf, r.User...)
	buf = binary.AppendUvarint(buf, uint64(len(r.Nickname)))
	buf = append(buf, r.Nickname...)
	if r.CoverURL != "" {
		buf = binary.AppendUvarint(buf, uint64(len(r.CoverURL)))
		buf = append(buf, r.CoverURL...)
	}
	return append(buf, r.AvatarURL[len(begin):]...)
}

// decodeHeld is the inverse of appendHeld. It fills in r, whose texts share the memory of
// data, and returns row id and version. For other data it empties r and returns false.
func decodeHeld(data string, begins []string, r *models.PublicRecord) (row models.RowID, version int64, ok bool) {
	if data == "" {
		*r = models.PublicRecord{}
		return 0, 0, false
	}
	flags := data[0]
	rowNumber, data, ok1 := cutNumber(data[1:])
	versionNumber, data, ok2 := cutNumber(data)
	begin, data, ok3 := cutNumber(data)
	user, data, ok4 := cutText(data)
	nickname, rest, ok5 := cutText(data)
	cover, ok6 := "", true
	if flags&flagCover != 0 {
		cover, rest, ok6 = cutText(rest)
	}
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || begin >= uint64(len(begins)) {
		*r = models.PublicRecord{}
		return 0, 0, false
	}
	r.User, r.Nickname = models.UserID(user), nickname
	r.AvatarURL.Begin, r.AvatarURL.Rest, r.CoverURL = begins[begin], rest, cover
	r.Hidden, r.Plain = flags&flagHidden != 0, flags&flagPlain != 0
	return models.RowID(rowNumber), int64(versionNumber), true
}
