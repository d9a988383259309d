package models

import "time"

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

// ExportSection is an array in the export of what is stored about a user: the rows of a query,
// as objects with the names of its columns. All parameters of the query are the row id.
type ExportSection struct {
	Name, Query string
	// Key holds columns of which no two rows have the same. It is the order in which pages
	// are read.
	Key []string
}
