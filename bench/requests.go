package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// buildRequests encodes the requests of the viewers before anything is measured.
func (e *environment) buildRequests() {
	e.rankings = e.friendRequests("steps", 0, e.viewers, pageRows, "")
	for v := range e.viewers {
		e.uploads = append(e.uploads, e.uploadRequest("steps", v, 100+v))
	}
}

// token returns a token of a user, or of a scope, that is valid for the run.
func (e *environment) token(user models.UserID, scope string) string {
	return must(auth.SignToken([]byte(e.config.Auth.HS256Secret), user, scope, "", "", time.Now(), time.Hour))
}

// friendRequests returns a request for a page of the friend ranking of each of some viewers, from
// the first one on. more is appended to the query.
func (e *environment) friendRequests(board string, first, viewers, page int, more string) [][]byte {
	return e.viewerRequests(fmt.Sprintf("/v1/boards/%s/friends?limit=%d%s", board, page, more), first, viewers)
}

// viewerRequests returns a request for a path of each of some viewers, from the first one on.
func (e *environment) viewerRequests(path string, first, viewers int) [][]byte {
	requests := make([][]byte, viewers)
	for v := range requests {
		requests[v] = httpRequest("GET", path, e.token(userID(viewer(first+v)), ""), "")
	}
	return requests
}

// askOnce sends each request once.
func askOnce(ctx context.Context, p *process, requests [][]byte) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sent atomic.Int64
	load(ctx, p.addr, rankingCallers, time.Hour, func() []byte {
		n := int(sent.Add(1))
		if n >= len(requests) {
			cancel() // each connection ends with the answer that it waits for
		}
		return requests[n%len(requests)]
	})
}

// redisRow measures the commands of rankings alone, of the first users and of several callers at
// a time. A larger number of viewers makes these slower, too, as fewer of their sets and scores
// are in the processor's cache.
func (e *environment) redisRow(name string, callers, viewers int) *row {
	return &row{name: name, measure: func(ctx context.Context) float64 {
		return loop(ctx, callers, e.seconds, func(ctx context.Context, i int) error {
			members, err := e.keys.friends(ctx, e.rdb, viewer(i%viewers))
			if err != nil {
				return err
			}
			return e.rdb.ZMScore(ctx, e.keys.board, members...).Err()
		})
	}}
}

const (
	// batchScores is the number of scores of a batch call, and batches that of different calls.
	batchScores, batches = 1000, 64
	// batchCallers is the number of concurrent batch calls.
	batchCallers = 8
	// firstScore is more than the scores that boards are filled with. Scores that are uploaded
	// begin with it, and have as many digits as scorePlace.
	firstScore = 30_000
	scorePlace = "#####"
	// risingUploaders is how many users upload scores that rise.
	risingUploaders = 20_000
)

// uploadRequest returns an upload of a viewer.
func (e *environment) uploadRequest(board string, v int, score any) []byte {
	return httpRequest("POST", "/v1/boards/"+board+"/scores", e.token(userID(viewer(v)), ""), fmt.Sprintf(`{"date":%q,"score":%v}`, today(), score))
}

// batchRequests returns batch uploads of a trusted backend, with the scores that score returns.
func (e *environment) batchRequests(board string, score func(userScore) any) [][]byte {
	token := e.token("1", auth.ScopeService)
	var requests [][]byte
	for _, scores := range e.randomBatches() {
		items := make([]string, len(scores))
		for i, s := range scores {
			items[i] = fmt.Sprintf(`{"user_id":"%d","date":%q,"score":%v}`, s.user, today(), score(s))
		}
		requests = append(requests, httpRequest("POST", "/v1/boards/"+board+"/scores/batch", token, `{"scores":[`+strings.Join(items, ",")+`]}`))
	}
	return requests
}

// risingUploads returns an upload of each of many users, for rising.
func (e *environment) risingUploads(board string) [][]byte {
	requests := make([][]byte, min(risingUploaders, e.board))
	for v := range requests {
		requests[v] = e.uploadRequest(board, v, scorePlace)
	}
	return requests
}

// risingBatches returns batch uploads, for rising.
func (e *environment) risingBatches(board string) [][]byte {
	return e.batchRequests(board, func(userScore) any { return scorePlace })
}

// userScore is one score of a batch.
type userScore struct{ user, score int64 }

// randomBatches returns batches, the same ones in every call.
func (e *environment) randomBatches() [][]userScore {
	rng := mathrand.New(mathrand.NewPCG(7, 8))
	list := make([][]userScore, batches)
	for i := range list {
		list[i] = make([]userScore, batchScores)
		for j := range list[i] {
			list[i][j] = userScore{user: int64(firstUser + rng.IntN(e.board)), score: int64(firstScore + rng.IntN(1000))}
		}
	}
	return list
}

// rising returns a source of uploads that send templates in turn, with a score in place of
// scorePlace that is larger than those of all sources with the same counter before.
func rising(templates [][]byte, sent *atomic.Int64) func() []byte {
	return func() []byte {
		n := int(sent.Add(1))
		score := strconv.AppendInt(nil, firstScore+int64(n/batches), 10)
		return bytes.ReplaceAll(templates[n%len(templates)], []byte(scorePlace), score)
	}
}

// render returns each of the templates once, as rising sends them.
func render(templates [][]byte, sent *atomic.Int64) [][]byte {
	requests, next := make([][]byte, len(templates)), rising(templates, sent)
	for i := range requests {
		requests[i] = next()
	}
	return requests
}

// today is the current day of the boards.
func today() models.Date {
	return models.DateOf(time.Now().In(time.FixedZone("Asia/Shanghai", 8*3600)))
}

// call sends a request to the service as an operator, with a body as JSON unless it is nil, and
// decodes the answer unless that is nil. The service must accept it.
func (e *environment) call(ctx context.Context, method, path string, body, answer any) (err error) {
	var encoded bytes.Buffer
	if body != nil {
		check(json.NewEncoder(&encoded).Encode(body))
	}
	got, err := send(ctx, e.service, method, path, e.token("1", auth.ScopeAdmin+" "+auth.ScopeService), &encoded)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, got.Close()) }()
	if answer == nil {
		_, err := io.Copy(io.Discard, got)
		return err
	}
	return json.NewDecoder(got).Decode(answer)
}

// send sends a request to a process, which must accept it, and returns the body of the answer. The caller
// closes it.
func send(ctx context.Context, p *process, method, path, token string, body io.Reader) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.addr+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if got.StatusCode/100 != 2 {
		return nil, errors.Join(fmt.Errorf("%s %s: %s", method, path, got.Status), got.Body.Close())
	}
	return got.Body, nil
}

// until waits until a condition holds, which it looks at again and again.
func until(ctx context.Context, every time.Duration, holds func() bool) {
	for !holds() {
		check(pause.For(ctx, every))
	}
}
