package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

const (
	// erasedDays is how many days an erased user has in the archive: five years.
	erasedDays = 5*365 + 1
	// dayUsers is how many other users have a score on each of these days.
	dayUsers = 100
)

// eraseResults holds the measurements of erasures.
type eraseResults struct {
	took       []time.Duration
	removed    []int64
	rate       int             // friend rankings a second
	calm, busy []time.Duration // p99 of friend rankings
}

// eraseBench measures how long it takes to erase a user with many days and friends, and the
// latency of rankings of these friends meanwhile.
func (e *environment) eraseBench(ctx context.Context) error {
	if err := e.fillYears(ctx); err != nil {
		return err
	}
	saturation, err := e.serviceRanking(ctx)
	if err != nil {
		return err
	}
	m := eraseResults{rate: max(1, int(saturation/4))}
	for round := range e.rounds {
		user := e.erasedUser(round)
		if err := e.befriendAll(ctx, user); err != nil {
			return err
		}
		calm, err := e.p99Now(ctx, m.rate)
		if err != nil {
			return err
		}
		busy, err := e.p99(ctx, m.rate, func(stop func()) error {
			defer stop()
			took, removed, err := e.erase(ctx, user)
			m.took, m.removed = append(m.took, took), append(m.removed, removed)
			return err
		})
		if err != nil {
			return err
		}
		m.calm, m.busy = append(m.calm, calm), append(m.busy, busy)
	}
	calm, busy := median(m.calm), median(m.busy)
	fmt.Printf("\n| erasing a user with %d days and %d friends | |\n| --- | ---: |\n", erasedDays, e.erasedFriends())
	fmt.Printf("| from the call until everything is removed | %.1f s |\n", median(m.took).Seconds())
	fmt.Printf("| rows, keys and entries that are removed or changed | %d |\n", median(m.removed))
	fmt.Printf("| p99 of friend rankings at %d a second | %v |\n", m.rate, calm.Round(10*time.Microsecond))
	fmt.Printf("| the same while the user is erased | %v |\n", busy.Round(10*time.Microsecond))
	return nil
}

// erasedUser returns the user who is erased in a round: one of the last of the board.
func (e *environment) erasedUser(round int) models.UserID {
	return userID(models.RowID(firstUser + e.board - 1 - round))
}

// erasedFriends is how many friends an erased user has: as many as allowed, or half of a
// small board.
func (e *environment) erasedFriends() int { return min(models.MaxFriends, e.board/2) }

// befriendAll makes the first users, with all viewers, friends of a user.
func (e *environment) befriendAll(ctx context.Context, user models.UserID) error {
	ids := make([]models.UserID, e.erasedFriends())
	for i := range ids {
		ids[i] = userID(models.RowID(firstUser + i))
	}
	body, err := json.Marshal(map[string]any{"friend_ids": ids})
	if err != nil {
		return err
	}
	return e.send(ctx, http.MethodPut, "/v1/users/"+string(user)+"/friends", auth.ScopeService, body)
}

// fillYears archives scores of the users to erase, and of some others, for erasedDays days.
func (e *environment) fillYears(ctx context.Context) error {
	path := filepath.Join(e.folder, "years")
	if err := e.writeYears(path); err != nil {
		return err
	}
	if _, err := e.importAll(ctx, "steps", path); err != nil {
		return err
	}
	_, err := e.stores.Pool.Exec(ctx, "VACUUM ANALYZE archived_scores")
	return err
}

// writeYears writes the file that fillYears imports. All its days are cold.
func (e *environment) writeYears(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	rng := mathrand.New(mathrand.NewPCG(18, 19))
	fmt.Fprintln(out, "user_id,date,steps")
	for ago := range erasedDays {
		day := time.Now().AddDate(0, 0, -10-ago).Format(time.DateOnly)
		for round := range e.rounds {
			fmt.Fprintf(out, "%s,%s,%d\n", e.erasedUser(round), day, rng.IntN(30_000))
		}
		for i := range dayUsers {
			fmt.Fprintf(out, "%s,%s,%d\n", userID(models.RowID(firstUser+i)), day, rng.IntN(30_000))
		}
	}
	return out.Flush()
}

// erase lets the service erase a user, and returns how long it took until the first sweep was
// done, which removes everything, and how much that was.
func (e *environment) erase(ctx context.Context, user models.UserID) (took time.Duration, removed int64, err error) {
	start := time.Now()
	if err := e.send(ctx, http.MethodDelete, "/v1/users/"+string(user), auth.ScopeService, nil); err != nil {
		return 0, 0, err
	}
	for {
		var sweeps int
		err := e.stores.Pool.QueryRow(ctx, "SELECT sweeps, removed FROM erasures ORDER BY id DESC LIMIT 1").Scan(&sweeps, &removed)
		if err != nil || sweeps > 0 {
			return time.Since(start), removed, err
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
