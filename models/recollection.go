package models

import "time"

// Loss is what a store may have forgotten.
type Loss int

// From nothing to everything.
const (
	NothingLost Loss = iota
	// LastWritesLost is a server that has restarted, or another one in its
	// place.
	LastWritesLost
	// AllLost is a server that has nothing of what was there.
	AllLost
)

// Recollection is what a store knows of what it may have forgotten.
type Recollection struct {
	Lost Loss
	// Noted is when it, or the server before it, was last known to have
	// everything; the zero time where all is lost.
	Noted time.Time
	// Notes tell it from what it is later: one, or several where the store is
	// several servers.
	Notes []Note
}

// Note is what a server says of itself.
type Note struct {
	// Server names the server, for the time from its start to its end.
	Server string
	// Mark stands in the store since the loss was first asked about, and goes
	// with whatever else is lost from then on; empty where nothing was lost.
	Mark string
}
