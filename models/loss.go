package models

import "time"

// LossExtent is what a store may have forgotten.
type LossExtent int

// From nothing to everything.
const (
	NothingLost LossExtent = iota
	// LastWritesLost is a server that has restarted, or another one in its
	// place.
	LastWritesLost
	// AllLost is a server that has nothing of what was there.
	AllLost
)

// LossReport is what a store knows of what it may have forgotten.
type LossReport struct {
	Extent LossExtent
	// CheckpointedAt is when it, or the server before it, was last known to have
	// everything; the zero time where all is lost.
	CheckpointedAt time.Time
	// Servers tell it from what it is later: one, or several where the store is
	// several servers.
	Servers []ServerState
}

// ServerState is what a server says of itself.
type ServerState struct {
	// RunID names the server, for the time from its start to its end.
	RunID string
	// Token stands in the store since the loss was first asked about, and goes
	// with whatever else is lost from then on; empty where nothing was lost.
	Token string
}
