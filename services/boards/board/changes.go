package board

import (
	"encoding/binary"
	"errors"
	"fmt"

	"stepboard/models"
)

// Change is one entry of a change stream: what one script has written to a bucket of
// the shard.
type Change struct {
	// ID is the entry's id: milliseconds, "-", and a number. The ids of a stream rise.
	ID string
	// Bucket is the name of the bucket. The stream of a shard has the changes of all
	// buckets of the board.
	Bucket string
	// Raised holds entries that the bucket was raised to. It has these or larger
	// composites of the users.
	Raised []models.Entry
	// Lowered holds the users whose entries were lowered or removed, or may have been: a
	// copy has to read them again.
	Lowered []models.RowID
	// Reset reports that any entries of the shard may be gone: a copy of this shard of the
	// bucket has to be made again.
	Reset bool
}

// The first byte of an encoded change says what follows. One that a process does not
// know can't be decoded, so that newer versions may write others.
const (
	changeRaised  = 1
	changeReset   = 2
	changeBegan   = 3
	changeLowered = 4
)

// encodeRaised encodes a change that has raised entries, about 13 bytes each:
//
//	1 byte    1
//	1 byte    length of the bucket's name, and the name
//	uvarint   row id, and
//	uvarint   composite of each entry
//
// Names are at most 255 bytes long.
func encodeRaised(bucket string, entries []models.Entry) []byte {
	buf := appendBucket(make([]byte, 0, 2+len(bucket)+13*len(entries)), changeRaised, bucket)
	for _, e := range entries {
		buf = binary.AppendUvarint(buf, uint64(e.User))
		buf = binary.AppendUvarint(buf, uint64(e.Composite))
	}
	return buf
}

// encodeLowered encodes a change that has lowered or removed entries of users, as
// encodeRaised without the composites. There must be a user.
func encodeLowered(bucket string, users []models.RowID) []byte {
	buf := appendBucket(make([]byte, 0, 2+len(bucket)+5*len(users)), changeLowered, bucket)
	for _, user := range users {
		buf = binary.AppendUvarint(buf, uint64(user))
	}
	return buf
}

// encodeReset encodes a change that may have removed any entries of a bucket.
func encodeReset(bucket string) []byte {
	return appendBucket(make([]byte, 0, 2+len(bucket)), changeReset, bucket)
}

// encodeBegan encodes the first entry of a stream, which belongs to no bucket. The
// number is random and distinguishes it from the first entry of an earlier stream.
func encodeBegan(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{changeBegan}, number)
}

func appendBucket(buf []byte, kind byte, bucket string) []byte {
	buf = append(buf, kind, byte(len(bucket)))
	return append(buf, bucket...)
}

// errUnreadableChange means that bytes are not an encoded change.
var errUnreadableChange = errors.New("unreadable change")

// decodeChange decodes a change. The first entry of a stream is the zero Change.
func decodeChange(data string) (Change, error) {
	fail := func(why string) (Change, error) { return Change{}, fmt.Errorf("%w: %s", errUnreadableChange, why) }
	switch {
	case data == "":
		return fail("empty")
	case data[0] == changeBegan && len(data) == 9:
		return Change{}, nil
	case data[0] != changeRaised && data[0] != changeReset && data[0] != changeLowered:
		return fail(fmt.Sprintf("kind %d of %d bytes", data[0], len(data)))
	case len(data) < 2 || data[1] == 0 || len(data) < 2+int(data[1]):
		return fail("the bucket's name is cut off")
	}
	name := 2 + int(data[1])
	c := Change{Bucket: data[2:name], Reset: data[0] == changeReset}
	rest := []byte(data[name:])
	if c.Reset != (len(rest) == 0) {
		return fail("the entries do not fit its kind")
	}
	if data[0] == changeRaised {
		c.Raised = make([]models.Entry, 0, 1+len(rest)/9) // most entries take 10 bytes or more
	}
	for len(rest) > 0 {
		user, n := binary.Uvarint(rest)
		if n <= 0 {
			return fail("a row id is cut off")
		}
		if user > uint64(models.MaxRowID) || user == 0 {
			return fail("a row id is out of range")
		}
		if rest = rest[n:]; data[0] == changeLowered {
			c.Lowered = append(c.Lowered, models.RowID(user))
			continue
		}
		composite, n := binary.Uvarint(rest)
		if n <= 0 {
			return fail("a composite is cut off")
		}
		if composite >= uint64(Top.Composite) || composite == 0 {
			return fail("a composite is out of range")
		}
		c.Raised = append(c.Raised, models.Entry{User: models.RowID(user), Composite: models.Composite(composite)})
		rest = rest[n:]
	}
	return c, nil
}
