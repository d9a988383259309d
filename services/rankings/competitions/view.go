package competitions

import (
	"time"

	"stepboard/models"
)

// State is how far a competition is.
type State string

// The states.
const (
	// Planned is before the first day, Running until the last is over, Closing until the archive has all
	// days, and Final after that.
	Planned State = "planned"
	Running State = "running"
	Closing State = "closing"
	Final   State = "final"
)

// View is a competition as somebody sees it.
type View struct {
	models.Competition
	State State
	// AsOf is when its scores were read; nil before the first time.
	AsOf *time.Time
	// Me is the viewer's line, and MyTeam that of the viewer's team; nil without one.
	Me     *Person
	MyTeam *TeamLine
}

// Query asks for a page of teams or people.
type Query struct {
	// Viewer is empty for backends and operators.
	Viewer models.UserID
	ID     models.CompetitionID
	// Group selects the people of a team; empty for all.
	Group  models.GroupID
	Cursor string
	Limit  int
}

// Page is a page of a standing.
type Page[T any] struct {
	AsOf  time.Time
	Final bool
	// Total is how many lines there are on all pages.
	Total   int64
	Entries []T
	// NextCursor is nil on the last page.
	NextCursor *string
}

// TeamLine is a team in a standing.
type TeamLine struct {
	Rank  int64
	Group models.GroupID
	Name  string
	// Score is nil if the viewer is not shown it. Members is how many people are in the team.
	Score   *int64
	Members int64
	// NotCounting is how many members of the group are not in the team; nil for users.
	NotCounting *int64
}

// Person is a person in a standing.
type Person struct {
	// Rank is that among all people of the competition.
	Rank int64
	// User is empty for an anonymous person, who then has no other field but Score, Days and ReachedAt.
	User      models.UserID
	Nickname  string
	AvatarURL string
	Group     models.GroupID
	Score     int64
	// Days is the number of days with a score.
	Days      int64
	ReachedAt models.Timestamp
	IsMe      bool
}
