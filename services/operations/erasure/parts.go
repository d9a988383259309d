package erasure

import (
	"context"

	"stepboard/internal/visible"
	"stepboard/models"
	"stepboard/services/people/directory"
)

// part is something that is stored about users. Whatever stores something new about them
// adds a part, or its tables and keys to one of these, in newParts; TestEveryTable and
// TestEveryKey fail until then. Erase must return 0 when it finds nothing, or the erasure
// never finishes.
type part struct {
	name string
	// tables are those whose rows name users, and keys the methods of keys.Builder, and
	// the kinds of cached sets, whose keys do.
	tables, keys []string
	// erase removes what is stored about a user, or empties it, and returns how much.
	erase func(ctx context.Context, e *models.Erasure) (changed int64, err error)
	// export writes what is stored about a user as members of the document.
	export func(ctx context.Context, d *document, row models.RowID) error
}

// by returns the erase of a part that a service keeps.
func by(eraser Eraser) func(ctx context.Context, e *models.Erasure) (int64, error) {
	return func(ctx context.Context, e *models.Erasure) (int64, error) { return eraser.Erase(ctx, e.Row) }
}

// newParts returns the parts in the order in which a sweep removes them. Corrections come
// after the archive, where they apply, and totals after the archive, which gives those of
// archived events the row ids of the archived scores.
func (s *Service) newParts() []part {
	return []part{
		{
			name: "profile", tables: []string{"users", "renames"}, keys: []string{"User", "UserRow"}, erase: s.eraseCopies,
			export: s.export(
				section{"profile", `SELECT external_id AS user_id, nickname, avatar_url, cover_url, hidden, friend_count, requests_sent,
					created_at, changed_at FROM users WHERE user_id = ?`, []string{"user_id"}},
				section{"former_ids", `SELECT former_id AS user_id, renamed_at FROM renames WHERE row_id = ?`, []string{"id"}},
			),
		},
		{name: "scores", keys: []string{"Board", "BoardHour", "Late", "Reported"}, erase: s.eraseScores, export: s.exportScores},
		{
			name: "friends", tables: []string{"friendships", "friend_requests"},
			keys: []string{"Set", "SetChanging", "SetLoading", "friends"}, erase: by(s.o.Friends),
			export: s.export(
				section{"friends", `SELECT u.external_id AS user_id, f.created_at AS since FROM friendships f
					JOIN users u ON u.user_id = f.friend_id WHERE f.user_id = ?`, []string{"f.friend_id"}},
				section{"friend_requests", `SELECT u.external_id AS user_id, CASE WHEN r.incoming THEN 'incoming' ELSE 'outgoing' END AS direction,
					r.created_at, r.declined_at FROM friend_requests r
					JOIN users u ON u.user_id = r.other_id WHERE r.user_id = ?`, []string{"r.other_id"}},
			),
		},
		{
			name: "privacy", tables: []string{"privacy_choices", "kept_choices"}, keys: []string{"not-shown"}, erase: by(s.o.Privacy),
			// Not the choices of others: who hides from the user is not told.
			export: s.export(
				section{"choices", `SELECT c.kind, u.external_id AS user_id, c.nickname, c.avatar_url, c.created_at FROM privacy_choices c
					JOIN users u ON u.user_id = c.other_id WHERE c.user_id = ?`, []string{"c.kind", "c.other_id"}},
				section{"choices_about_erased_users", `SELECT k.kind, k.created_at FROM kept_choices k WHERE k.user_id = ?`, []string{"k.kind", "k.row_id"}},
			),
		},
		{
			name: "groups", tables: []string{"groups", "group_members"}, keys: []string{"groups"}, erase: by(s.o.Groups),
			export: s.export(section{"groups", `SELECT g.external_id AS group_id, g.name, m.joined_at,
				CASE WHEN g.owner_id = m.user_id THEN 'owner' ELSE 'member' END AS role
				FROM group_members m JOIN groups g ON g.group_id = m.group_id WHERE m.user_id = ?`, []string{"g.group_id"}}),
		},
		{
			name: "likes", tables: []string{"likes"}, erase: by(eraserFunc(s.o.Store.eraseLikes)),
			export: s.export(
				section{"likes_given", `SELECT u.external_id AS user_id, l.board, l.day AS date, l.created_at, l.withdrawn FROM likes l
					JOIN users u ON u.user_id = l.user_id WHERE l.liked_by = ?`, []string{"l.day", "l.board", "l.user_id"}},
				// Only of those whom the user is shown.
				section{"likes_received", `SELECT u.external_id AS user_id, l.board, l.day AS date, l.created_at FROM likes l
					JOIN users u ON u.user_id = l.liked_by WHERE l.user_id = ? AND NOT l.withdrawn AND NOT u.hidden
					AND ` + visible.ToViewer("l.liked_by"), []string{"l.day", "l.board", "l.liked_by"}},
			),
		},
		{
			name: "archive", tables: []string{"archived_scores"}, erase: s.unlessPending(s.o.Archive),
			export: func(ctx context.Context, d *document, row models.RowID) error {
				return s.export(section{"archived_scores", s.o.Store.archivedQuery(), []string{"b.day", "b.board"}})(ctx, d, row)
			},
		},
		{
			name: "increments", tables: []string{"score_events", "score_totals"}, erase: s.unlessPending(s.o.Increments),
			export: s.export(
				section{"increments", `SELECT board, event_id, delta, accepted_at, score, reached_at FROM score_events WHERE user_id = ?`, []string{"board", "event_id"}},
				section{"totals", `SELECT board, total AS bucket, score, reached_at FROM score_totals
					WHERE user_id = ? AND board IN (SELECT board FROM board_buckets UNION SELECT name FROM boards)`, []string{"board", "total"}},
			),
		},
		{
			name: "corrections", tables: []string{"corrections", "reported_scores"}, erase: s.unlessPending(s.o.Corrections),
			export: s.export(
				section{"corrections", `SELECT board, day AS date, kind, score, reached_at, before_score, before_at, reason, created_at,
					lifted_at, lift_reason FROM corrections WHERE user_id = ?`, []string{"id"}},
				section{"reported_scores", `SELECT board, bucket, score, reached_at FROM reported_scores WHERE user_id = ?`, []string{"board", "bucket"}},
			),
		},
		{
			name: "reviews", tables: []string{"reviews"}, erase: by(eraserFunc(s.o.Store.eraseReviews)),
			export: s.export(section{"reviews", `SELECT board, bucket, score, reached_at, first_seen_at, dismissed_at, dismiss_reason
				FROM reviews WHERE user_id = ?`, []string{"id"}}),
		},
		{
			name: "audit", tables: []string{"audit_log"}, erase: by(eraserFunc(s.o.Store.eraseAudit)),
			export: s.export(section{"operator_actions", `SELECT at, action, board, bucket, target, reason, outcome
				FROM audit_log WHERE user_id = ?`, []string{"id"}}),
		},
		{name: "dead letters", tables: []string{"dead_letters"}, erase: by(s.o.DeadLetters), export: s.exportDeadLetters},
		{name: "webhooks", tables: []string{"webhook_deliveries"}, erase: by(s.o.Deliveries), export: s.exportDeliveries},
	}
}

type eraserFunc func(ctx context.Context, user models.RowID) (int64, error)

// Erase calls the function.
func (f eraserFunc) Erase(ctx context.Context, user models.RowID) (int64, error) { return f(ctx, user) }

// eraseCopies removes what Redis has under any id that the user had. The former ids
// themselves are removed when the erasure is finished, as each sweep needs them.
func (s *Service) eraseCopies(ctx context.Context, e *models.Erasure) (int64, error) {
	former, err := formerIDs(s.o.Store.db.WithContext(ctx), e.Row)
	if err != nil {
		return 0, err
	}
	copies := []directory.Erased{{Row: e.Row, User: e.User}}
	for _, id := range former {
		copies = append(copies, directory.Erased{Row: e.Row, User: &id})
	}
	return s.o.Directory.DropCopies(ctx, copies...)
}

func (s *Service) eraseScores(ctx context.Context, e *models.Erasure) (int64, error) {
	buckets, err := s.o.Store.hotBuckets(ctx, s.now())
	if err != nil {
		return 0, err
	}
	return s.o.Boards.Remove(ctx, buckets, []models.RowID{e.Row})
}

// unlessPending returns the erase of a part that must wait until the archive has applied
// the user's corrections, which a job does within seconds: the archived score would else
// stay as it was. Meanwhile it changes nothing and returns 1, so that another sweep follows.
func (s *Service) unlessPending(eraser Eraser) func(ctx context.Context, e *models.Erasure) (int64, error) {
	return func(ctx context.Context, e *models.Erasure) (int64, error) {
		pending, err := s.o.Pending(ctx, e.Row)
		if err != nil {
			return 0, err
		}
		if pending {
			return 1, nil
		}
		return eraser.Erase(ctx, e.Row)
	}
}
