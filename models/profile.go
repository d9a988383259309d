package models

// Profile holds the public fields of a user.
type Profile struct {
	Nickname  string
	AvatarURL string
	// CoverURL is the address of a picture that rankings show at their top while the user leads.
	CoverURL string
}
