package models

// Lowering replaces an entry of a BoardPart by a smaller one, or removes it.
type Lowering struct {
	// Stored is the entry that is replaced. If the part has another composite of the
	// user by now, nothing changes.
	Stored Entry
	// Composite is the one that replaces it; 0 removes the entry.
	Composite Composite
}
