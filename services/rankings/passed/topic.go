package passed

import (
	"context"
	"iter"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/outcomes"
)

// notice is the payload of rank.passed: User, now at place Rank, was passed by others.
type notice struct {
	Board string       `json:"board"`
	Date  string       `json:"date"`
	User  models.RowID `json:"user"`
	Rank  int          `json:"rank"`
	Was   int          `json:"was"`
	// Total is of how many, and Score the user's own, for Web Push.
	Total int            `json:"total"`
	Score int64          `json:"score"`
	By    []models.RowID `json:"by"`
	// Until is when it is too late to send it, in Unix milliseconds.
	Until int64 `json:"until"`
}

// data is what is told of a notice.
type data struct {
	Board    string            `json:"board"`
	Date     string            `json:"date"`
	User     models.UserID     `json:"user_id"`
	Rank     int               `json:"rank"`
	Was      int               `json:"was"`
	PassedBy []outcomes.Person `json:"passed_by"`
}

// Receivers returns the user who was passed.
func (n *notice) Receivers() iter.Seq2[models.RowID, any] {
	return func(yield func(models.RowID, any) bool) { yield(n.User, n) }
}

// Expires returns when it is too late to send it.
func (n *notice) Expires() time.Time { return time.UnixMilli(n.Until) }

// Render returns what is told of a notice, with people as they are now.
type Render func(ctx context.Context, n *notice) (data, error)

// NewRender returns the function that renders notices. Its errors are outcomes.ErrOver once it is too
// late, and outcomes.ErrErased and outcomes.ErrHidden if nobody is left to be told or named.
func NewRender(records models.Records, choices *privacy.Store, clock models.Clock) Render {
	return func(ctx context.Context, n *notice) (told data, err error) {
		if !clock().Before(n.Expires()) {
			return told, outcomes.ErrOver
		}
		people, err := records.RecordsMany(ctx, append([]models.RowID{n.User}, n.By...))
		if err != nil {
			return told, err
		}
		apart, err := choices.Apart(ctx, []models.RowID{n.User}, n.By)
		if err != nil {
			return told, err
		}
		told = data{Board: n.Board, Date: n.Date, User: people[0].User, Rank: n.Rank, Was: n.Was}
		if told.User == "" {
			return told, outcomes.ErrErased
		}
		for i, record := range people[1:] {
			if record.User != "" && !record.Hidden && !apart[privacy.Apart{ViewerID: n.User, UserID: n.By[i]}] {
				told.PassedBy = append(told.PassedBy, outcomes.PersonOf(&record))
			}
		}
		if len(told.PassedBy) == 0 {
			return told, outcomes.ErrHidden
		}
		return told, nil
	}
}

// Topic returns what the outcomes of notices look like.
func Topic(render Render) outcomes.Topic {
	webhook := func(ctx context.Context, n *notice) (any, error) { return render(ctx, n) }
	push := func(ctx context.Context, n *notice) (outcomes.Notice, error) {
		told, err := render(ctx, n)
		return outcomes.Notice{
			Board: told.Board, Date: told.Date, People: told.PassedBy, Rank: int64(n.Rank), Total: int64(n.Total), Score: n.Score,
			URL: outcomes.DayURL(told.Date),
		}, err
	}
	return outcomes.WithNotices(outcomes.NewTopic(models.OutcomeRankPassed, webhook, (*notice).without), push)
}

// without takes out somebody who has passed. Nothing is left without the user who is told.
func (n *notice) without(user models.RowID) (named, left bool) {
	if n.User == user {
		return true, false
	}
	others := slices.DeleteFunc(slices.Clone(n.By), func(row models.RowID) bool { return row == user })
	named = len(others) < len(n.By)
	n.By = others
	return named, len(others) > 0
}
