package models

import "context"

// Finder finds users by their ids. Implemented by directory.Service.
type Finder interface {
	// FindOne returns a user's row id; 0 if the user does not exist. CodeUnavailable if a store
	// is away.
	FindOne(ctx context.Context, user UserID) (RowID, error)
}

// Ensurer finds users by their ids, and creates those that do not exist. Implemented by
// directory.Service.
type Ensurer interface {
	// Ensure returns the row id of each user, by position. CodeUnavailable if a store is away.
	Ensure(ctx context.Context, users ...UserID) ([]RowID, error)
}

// Records returns what is known of users. Implemented by directory.Service.
type Records interface {
	// RecordsMany returns the record of each of up to some hundred users, by position;
	// one without a user id if the user does not exist. CodeUnavailable if SQL is away.
	RecordsMany(ctx context.Context, rows []RowID) ([]PublicRecord, error)
}

// Describer describes users. Implemented by directory.Service.
type Describer interface {
	// Records returns the record of each user, by position; one without a user id if
	// the user does not exist. CodeUnavailable if a store is away.
	Records(ctx context.Context, rows []RowID) ([]PublicRecord, error)
}

// Directory is a Finder and a Describer. Implemented by directory.Service.
type Directory interface {
	Finder
	Describer
}

// Users is a Finder and an Ensurer. Implemented by directory.Service.
type Users interface {
	Finder
	Ensurer
	// Find returns the row id of each user, by position; 0 for users that do not exist.
	// CodeUnavailable if a store is away.
	Find(ctx context.Context, users ...UserID) ([]RowID, error)
}
