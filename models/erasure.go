package models

import (
	"context"
	"time"
)

// EraseAction is the action of an operator who erases a user. The audit log keeps its
// reason when it forgets the user.
const EraseAction = "eraseUserAsOperator"

// Erasure says how far the erasure of a user is.
type Erasure struct {
	ID int64
	// Row is the row id that the user had. Nobody has it any more.
	Row RowID `gorm:"column:row_id"`
	// User is nil once the erasure is finished.
	User *UserID `gorm:"column:user_id"`
	// Hash is the HMAC of the user's id and row id, 32 bytes, followed by those of the
	// user's former ids.
	Hash    []byte `gorm:"column:user_hash"`
	BegunAt time.Time
	// SweptAt is when the last complete sweep began; nil before the first one. Sweeps
	// counts the complete ones. Removed is how many rows, keys and entries the last one
	// has removed or emptied.
	SweptAt    *time.Time
	Sweeps     int
	Removed    int64
	FinishedAt *time.Time
	// IDHash is the HMAC of the user's id alone; nil once nothing is kept for its return.
	IDHash []byte `gorm:"column:id_hash"`
	// What the user had sent and changed, as in User.
	RequestsSent  int
	RequestsUntil *time.Time
	Hidings       int
	HidingsUntil  *time.Time
	// ReturnedRow is the row id under which the user id has returned; nil before that. Moved
	// reports that all that was kept has been moved to it.
	ReturnedRow *RowID
	Moved       bool
}

// TableName returns the name of the table of erasures.
func (Erasure) TableName() string { return "erasures" }

// Cursor returns the position in a list that is ordered by id.
func (e Erasure) Cursor() Cursor { return Cursor{Key: e.ID} }

// BranchErasure says how far the erasure of a user with all whom they have brought is.
type BranchErasure struct {
	// ID is that of the user's own erasure, which is the last one; 0 until it begins.
	ID int64
	// Done is how many users the call has erased, Left how many are left.
	Done, Left int
}

// Subject is something that is stored about users. The package that owns its tables and keys makes
// it, and package erasure does with all of them what it does with a user.
type Subject struct {
	Name string
	// Tables are those whose rows name users, and Keys the methods of keys.Builder, and the
	// kinds of cached sets, whose keys do.
	Tables, Keys []string
	// AfterCorrections reports that Erase must wait until the archive has applied the user's
	// corrections.
	AfterCorrections bool
	// Erase removes what is stored about a user who was erased, or empties it, and returns how
	// much. It may be repeated. It must return 0 when it finds nothing, or the erasure never
	// finishes.
	Erase func(ctx context.Context, user RowID) (changed int64, err error)
	// Export has the arrays of an export.
	Export []ExportSection
	// The others are nil unless Erase keeps something which must hold again when the user id
	// returns: what others have decided about the user. It is kept under the row id of the
	// erased user. Return moves it to the row under which the user id has returned, and nothing if
	// that was erased, too. It may be repeated. Keeps reports whether anything is kept, and
	// Forget removes it.
	Return func(ctx context.Context, from, to RowID) error
	Keeps  func(ctx context.Context, user RowID) (bool, error)
	Forget func(ctx context.Context, user RowID) error
}

// ExportSection is an array in the export of what is stored about a user: the rows of a query,
// as objects with the names of its columns, or what Each finds.
type ExportSection struct {
	Name string
	// All parameters of Query are the row id.
	Query string
	// Points names the columns of Query that hold points, which are shown as scores. Such a query
	// also has score_order and max_score of their bucket, which are not shown.
	Points []string
	// Key holds columns of which no two rows have the same. It is the order in which pages
	// are read.
	Key []string
	// Secret leaves the section out of an export by an operator: only the user may have it.
	Secret bool
	// Each calls fn with each item; nil if there is a query.
	Each func(ctx context.Context, user RowID, fn func(item any) error) error
}
