package directory

import (
	"strings"
	"sync/atomic"

	"stepboard/models"
)

const (
	// beginOverhead is the bytes that a beginning takes beside its text.
	beginOverhead = 80
	// longestBegin is the length of the longest beginning, in bytes.
	longestBegin = 256
)

// begins is a table of the beginnings that avatars of an app share, such as
// "https://cdn.example.com/avatars/". It learns them: what two avatars that are held one
// after the other have in common, up to a "/", becomes a beginning, until the table has
// taken its bytes. They are never removed, because records refer to them.
type begins struct {
	// list has each beginning at its number; the first one is empty. It only grows.
	list atomic.Pointer[[]string]

	// Writers only, one at a time:
	numbers map[string]int
	room    int64        // bytes that are left
	last    string       // the avatar that was split last
	lastRow models.RowID // of the user with this avatar
}

func newBegins(bytes int64) *begins {
	b := &begins{numbers: map[string]int{}, room: bytes}
	b.list.Store(&[]string{""})
	return b
}

// split returns the longest known beginning of a user's avatar, and its number.
func (b *begins) split(row models.RowID, avatar string) (begin string, number int) {
	if row != b.lastRow { // the same user's avatars have more in common than others
		b.learn(shared(avatar, b.last))
		b.last, b.lastRow = strings.Clone(avatar), row
	}
	for end := strings.LastIndexByte(avatar, '/'); end >= 0; end = strings.LastIndexByte(avatar[:end], '/') {
		if number, ok := b.numbers[avatar[:end+1]]; ok {
			return avatar[:end+1], number
		}
	}
	return "", 0
}

// shared returns what two addresses begin with, up to and with a "/"; "" if they differ
// before the first one.
func shared(one, other string) string {
	n := 0
	for n < min(len(one), len(other)) && one[n] == other[n] {
		n++
	}
	return one[:strings.LastIndexByte(one[:n], '/')+1]
}

// learn adds a beginning to the table, if it is a new one and there is room.
func (b *begins) learn(begin string) {
	bytes := int64(len(begin) + beginOverhead)
	if _, known := b.numbers[begin]; known || begin == "" || len(begin) > longestBegin || bytes > b.room {
		return
	}
	begin = strings.Clone(begin)
	list := append(*b.list.Load(), begin)
	b.numbers[begin] = len(list) - 1
	b.room -= bytes
	b.list.Store(&list) // readers have shorter slices of the same array
}
