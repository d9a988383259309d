package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// Update is an accepted upload on its way through a queue: a user's total in a
// bucket and when it was reached. It carries no composite and no points, because
// they mean nothing without their bucket.
type Update struct {
	Board     string
	Bucket    string
	User      models.RowID
	Score     int64
	ReachedAt models.Timestamp
}

// updateOf returns the update that a raise applies.
func updateOf(r models.Raise) Update {
	points, reachedAt := score.Of(r.Bucket).Decode(r.Composite)
	return Update{Board: r.Bucket.Board, Bucket: r.Bucket.Name, User: r.User, Score: r.Bucket.Score(points), ReachedAt: reachedAt}
}

// updateVersion is the first byte of an encoded update. An update of another
// version can't be decoded and becomes a dead letter.
const updateVersion = 1

// maxUpdate is the longest encoding, in bytes.
const maxUpdate = 1 + 3*binary.MaxVarintLen64 + 2*(1+255) + crc32.Size

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendTo appends the update's encoding to buf, about 35 bytes:
//
//	1 byte    version, 1
//	uvarint   user
//	uvarint   score
//	uvarint   reached at, in milliseconds since the Unix epoch
//	1 byte    length of the board's name, and the name
//	1 byte    length of the bucket's name, and the name
//	4 bytes   CRC-32C of all the bytes before, big-endian
//
// Names are at most 255 bytes long, and no number is negative.
func (u Update) AppendTo(buf []byte) []byte {
	start := len(buf)
	buf = append(buf, updateVersion)
	buf = binary.AppendUvarint(buf, uint64(u.User))
	buf = binary.AppendUvarint(buf, uint64(u.Score))
	buf = binary.AppendUvarint(buf, uint64(u.ReachedAt))
	for _, name := range [...]string{u.Board, u.Bucket} {
		buf = append(buf, byte(len(name)))
		buf = append(buf, name...)
	}
	return binary.BigEndian.AppendUint32(buf, crc32.Checksum(buf[start:], castagnoli))
}

// errUnreadable means that bytes are not an encoded update.
var errUnreadable = errors.New("unreadable")

// DecodeUpdate decodes the output of AppendTo, and nothing else.
func DecodeUpdate(data []byte) (Update, error) {
	if len(data) == 0 {
		return Update{}, fmt.Errorf("%w: empty", errUnreadable)
	}
	if data[0] != updateVersion {
		return Update{}, fmt.Errorf("%w: version %d, and this process knows %d", errUnreadable, data[0], updateVersion)
	}
	if len(data) < 1+crc32.Size || len(data) > maxUpdate {
		return Update{}, fmt.Errorf("%w: %d bytes", errUnreadable, len(data))
	}
	body, sum := data[:len(data)-crc32.Size], binary.BigEndian.Uint32(data[len(data)-crc32.Size:])
	if crc32.Checksum(body, castagnoli) != sum {
		return Update{}, fmt.Errorf("%w: the checksum is wrong", errUnreadable)
	}
	rest := body[1:]
	var numbers [3]uint64
	for i := range numbers {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			return Update{}, fmt.Errorf("%w: a number is cut off", errUnreadable)
		}
		numbers[i], rest = n, rest[size:]
	}
	var names [2]string
	for i := range names {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return Update{}, fmt.Errorf("%w: a name is cut off", errUnreadable)
		}
		end := 1 + int(rest[0])
		names[i], rest = string(rest[1:end]), rest[end:]
	}
	u := Update{
		Board: names[0], Bucket: names[1],
		User: models.RowID(numbers[0]), Score: int64(numbers[1]), ReachedAt: models.Timestamp(numbers[2]),
	}
	if len(rest) != 0 || !u.User.Valid() || u.Score < 0 || u.ReachedAt < 0 {
		return Update{}, fmt.Errorf("%w: a value is out of range", errUnreadable)
	}
	return u, nil
}
