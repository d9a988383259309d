package models

import (
	"bytes"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// UserID is the app's own id of a user, an opaque text: 1 to MaxUserID bytes of
// printable ASCII without spaces. No segment between slashes is "." or "..", which address
// parsers remove from paths: behind a proxy that decodes paths, friends/..%2Fme would be me.
// Ids are compared byte by byte.
type UserID string

// MaxUserID is the length of the longest user id, in bytes.
const MaxUserID = 128

// errUserID is the error for every malformed user id.
var errUserID = errors.New(`a user id is 1 to 128 printable ASCII characters without spaces, and has no path segment "." or ".."`)

// ParseUserID returns the user id with this text, or an error that says what a user
// id is.
func ParseUserID(text string) (UserID, error) {
	if len(text) == 0 || len(text) > MaxUserID {
		return "", errUserID
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return "", errUserID
		}
	}
	if strings.Contains(text, ".") {
		for segment := range strings.SplitSeq(text, "/") {
			if segment == "." || segment == ".." {
				return "", errUserID
			}
		}
	}
	return UserID(text), nil
}

// Valid reports whether ParseUserID accepts the id's text.
func (id UserID) Valid() bool {
	_, err := ParseUserID(string(id))
	return err == nil
}

// signUpPrefix begins the ids of users who have signed up here, and signUpLetters is how many letters follow it, of those
// of Base32 in small letters.
const (
	signUpPrefix  = "u_"
	signUpLetters = 16
)

// NewUserID returns a random id for somebody who signs up.
func NewUserID() UserID { return UserID(signUpPrefix + strings.ToLower(rand.Text()[:signUpLetters])) }

// SignsUp reports whether an id is one that only signing up makes: u_ and 16 letters.
func (id UserID) SignsUp() bool {
	letters, ok := strings.CutPrefix(string(id), signUpPrefix)
	return ok && len(letters) == signUpLetters && strings.Trim(letters, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// UnmarshalText sets the id to a text that ParseUserID accepts.
func (id *UserID) UnmarshalText(text []byte) error {
	parsed, err := ParseUserID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// RowID is the internal number of a user: 1 … MaxRowID, nearly without gaps. It is
// the member of sorted sets and the key of tables. It never leaves the service:
// clients, logs and metrics only have user ids.
type RowID int64

// MaxRowID is the largest row id, 2^53 - 1.
const MaxRowID RowID = 1<<53 - 1

// errRowID is the error for every malformed row id.
var errRowID = errors.New("a row id is a whole number from 1 to 9007199254740991, without sign, spaces or leading zeros")

// ParseRowID parses the decimal form of a row id, as Redis stores it. It accepts no
// sign, no space and no leading zero.
func ParseRowID(s string) (RowID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || !RowID(n).Valid() || s[0] < '1' || s[0] > '9' {
		return 0, errRowID
	}
	return RowID(n), nil
}

// FirstNobody is the smallest of the row ids that no user ever has. Archived scores of
// erased users have random ones from it on.
const FirstNobody RowID = 1 << 52

// Random returns a random number that is at least 0 and less than n. Safe for concurrent use.
type Random func(n int64) int64

// NewNobody returns a random row id from FirstNobody on. Guessing it reveals nothing.
func NewNobody(random Random) RowID { return FirstNobody + RowID(random(int64(FirstNobody))) }

// Valid reports whether id is in 1 … MaxRowID.
func (id RowID) Valid() bool { return id >= 1 && id <= MaxRowID }

// String returns the decimal form: the member of every sorted set.
func (id RowID) String() string { return strconv.FormatInt(int64(id), 10) }

// Record holds the fields that the directory stores of a user.
type Record struct {
	Row  RowID  `gorm:"column:user_id"`
	User UserID `gorm:"column:external_id"`
	Profile
	// Hidden reports whether the user hides from everybody.
	Hidden bool
	// Version grows with every update of the record. Of two copies the one with the
	// larger version is the newer. It is 0 until the first update.
	Version int64
}

// Public returns the part of the record that others see.
func (r *Record) Public() PublicRecord {
	return PublicRecord{User: r.User, Nickname: r.Nickname, AvatarURL: URL{Rest: r.AvatarURL}, CoverURL: r.CoverURL, Hidden: r.Hidden}
}

// PublicRecord is the part of a record that others see.
type PublicRecord struct {
	User      UserID // empty if no such user exists
	Nickname  string
	AvatarURL URL
	CoverURL  string
	// Hidden reports whether the user hides from everybody: global lists show nothing else
	// of the record to others.
	Hidden bool
	// Plain reports whether IsPlain is known to hold for all of these texts but CoverURL.
	Plain bool
}

// URL is an address in two parts, so that many addresses can share the first one in
// memory.
type URL struct {
	Begin string // empty, or up to and with a "/" of the address
	Rest  string
}

// String returns the whole address.
func (u URL) String() string { return u.Begin + u.Rest }

// MarshalText returns the whole address.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText sets the address to a text, which may be any.
func (u *URL) UnmarshalText(text []byte) error {
	*u = URL{Rest: string(text)}
	return nil
}

// CompareText orders two ids by their decimal text, bytewise, as Redis orders
// the members of a sorted set: "9" is greater than "10". It returns -1, 0 or 1.
func (id RowID) CompareText(other RowID) int {
	var a, b [20]byte // on the stack
	return bytes.Compare(strconv.AppendInt(a[:0], int64(id), 10), strconv.AppendInt(b[:0], int64(other), 10))
}

// Profile holds the public fields of a user.
type Profile struct {
	Nickname  string
	AvatarURL string
	// CoverURL is the address of a picture that rankings show at their top while the user leads.
	CoverURL string
}

// RowsWithout returns the elements of a that are not in b, which is ascending.
func RowsWithout(a, b []RowID) []RowID {
	return slices.DeleteFunc(slices.Clone(a), func(row RowID) bool {
		_, found := slices.BinarySearch(b, row)
		return found
	})
}

// RowSet is a set of row ids to which ids are only added. The zero value is empty. Safe for
// concurrent use.
type RowSet struct {
	n    atomic.Int64
	rows sync.Map // of RowID
}

// Add adds a row id.
func (s *RowSet) Add(row RowID) {
	if _, known := s.rows.LoadOrStore(row, true); !known {
		s.n.Add(1)
	}
}

// Empty reports whether the set has no row ids.
func (s *RowSet) Empty() bool { return s.n.Load() == 0 }

// Has reports whether a row id was added. One atomic load if the set is empty.
func (s *RowSet) Has(row RowID) bool {
	if s.Empty() {
		return false
	}
	_, known := s.rows.Load(row)
	return known
}
