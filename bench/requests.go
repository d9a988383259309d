package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// buildRequests encodes all requests before anything is measured.
func (e *environment) buildRequests(context.Context) error {
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		return err
	}
	today := time.Now().In(zone).Format(time.DateOnly)
	for v := range e.viewers {
		token, err := e.token(userID(viewer(v)), "")
		if err != nil {
			return err
		}
		e.rankings = append(e.rankings, e.rankingRequest("steps", token, ""))
		e.bareRanks = append(e.bareRanks, httpRequest("GET", "/rank/"+viewer(v).String(), "", ""))
		body := fmt.Sprintf(`{"date":%q,"score":%d}`, today, 100+v)
		e.uploads = append(e.uploads, httpRequest("POST", "/v1/boards/steps/scores", token, body))
		e.bareScores = append(e.bareScores, httpRequest("POST", "/score/"+viewer(v).String(), "", body))
	}
	return nil
}

// token returns a token of a user, or of a scope, that is valid for the run.
func (e *environment) token(user models.UserID, scope string) (string, error) {
	return auth.SignToken([]byte(e.config.Auth.HS256Secret), user, scope, "", "", time.Now(), time.Hour)
}

// send sends a body to the service with a scope. The service must accept it.
func (e *environment) send(ctx context.Context, method, path, scope string, body []byte) (err error) {
	token, err := e.token("1", scope)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+e.service.addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s", method, path, answer.Status)
	}
	return nil
}

// rankingRequest returns a request for a friend ranking; more is appended to its
// query.
func (e *environment) rankingRequest(board, token, more string) []byte {
	return httpRequest("GET", fmt.Sprintf("/v1/boards/%s/friends?limit=%d%s", board, e.limit, more), token, "")
}

func (e *environment) redisRanking(ctx context.Context) (float64, error) {
	return e.redisRankings(ctx, rankingCallers, e.viewers)
}

// redisRankings sends the commands of rankings of the first users, of several callers at a time.
func (e *environment) redisRankings(ctx context.Context, callers, viewers int) (float64, error) {
	return loop(ctx, callers, e.seconds, func(ctx context.Context, i int) error {
		members, err := e.keys.friends(ctx, e.rdb, viewer(i%viewers))
		if err != nil {
			return err
		}
		return e.rdb.ZMScore(ctx, e.keys.board, members...).Err()
	})
}

func (e *environment) bareRanking(ctx context.Context) (float64, error) {
	return load(ctx, e.bare.addr, rankingCallers, e.seconds, rotate(e.bareRanks))
}

func (e *environment) serviceRanking(ctx context.Context) (float64, error) {
	rate, err := load(ctx, e.service.addr, rankingCallers, e.seconds, rotate(e.rankings))
	e.rssRanking = max(e.rssRanking, e.service.rss())
	return rate, err
}

func (e *environment) bareUpload(ctx context.Context) (float64, error) {
	return load(ctx, e.bare.addr, 64, e.seconds, rotate(e.bareScores))
}

func (e *environment) serviceUpload(ctx context.Context) (float64, error) {
	rate, err := load(ctx, e.service.addr, 64, e.seconds, rotate(e.uploads))
	e.rssUpload = max(e.rssUpload, e.service.rss())
	return rate, err
}

func (e *environment) printMemory(context.Context) error {
	fmt.Println("| memory | bytes |")
	fmt.Println("| --- | ---: |")
	fmt.Printf("| Redis, for each user of a board | %.1f |\n", float64(e.boardBytes)/float64(e.board))
	fmt.Printf("| Redis, for each friend in a set of %d | %.1f |\n", e.friends, float64(e.friendBytes)/float64(e.viewers*e.friends))
	fmt.Printf("| service, resident, under rankings | %d |\n", e.rssRanking)
	_, err := fmt.Printf("| service, resident, under uploads | %d |\n", e.rssUpload)
	return err
}
