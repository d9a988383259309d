package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/boards/score"
)

const (
	// rankingCallers is the number of concurrent rankings, except in part near.
	rankingCallers = 32
	// uploadCallers is the number of concurrent uploads.
	uploadCallers = 64
)

// servingBench measures rankings and uploads.
func (e *environment) servingBench(ctx context.Context) {
	check(e.rdb.Copy(ctx, e.keys.board, uploadKey, 0, true).Err())
	bare := e.start(ctx, "bare", must(os.Executable()), "-bare", e.config.Redis.Addrs[0], "-prefix", e.keys.Prefix, "-key", e.keys.board)
	defer bare.stop()
	var rankings, scores [][]byte
	for v, upload := range e.uploads {
		user := viewer(v).String()
		_, body, _ := strings.Cut(string(upload), "\r\n\r\n")
		rankings = append(rankings, httpRequest("GET", "/rank/"+user, "", ""))
		scores = append(scores, httpRequest("POST", "/score/"+user, "", body))
	}
	commands := e.redisRow("friend ranking: go-redis loop, SMEMBERS + ZMSCORE, 32 goroutines", rankingCallers, e.viewers)
	bareRanking := e.loadRow("friend ranking: bare Gin handler, 32 connections", bare, rankingCallers, 1, rotate(rankings))
	ranking := e.loadRow("friend ranking: Stepboard, 32 connections", e.service, rankingCallers, 1, rotate(e.rankings))
	bareUpload := e.loadRow("upload: bare Gin handler, one ZADD a request, 64 connections", bare, uploadCallers, 1, rotate(scores))
	upload := e.loadRow("upload: Stepboard, 64 connections", e.service, uploadCallers, 1, rotate(e.uploads))
	bareRanking.base, ranking.base, upload.base = commands, commands, bareUpload
	e.printTable(ctx, "what", commands, bareRanking, ranking, bareUpload, upload)
	fmt.Printf("\nfriend rankings of Stepboard are %.2f of the bare handler's\n", ranking.median()/bareRanking.median())
	fmt.Printf("Redis takes %.1f bytes for each user of a board, and %.1f for each friend in a set of %d\n",
		float64(e.boardBytes)/float64(e.board), float64(e.friendBytes)/float64(e.viewers*e.friends), e.friends)
}

// coldViewers is how many viewers have the sets that Redis lacks.
const coldViewers = 10_000

// coldBench compares friend rankings whose friend sets Redis lacks, as it does for most
// viewers who open the app a few times a day, with those whose sets it has. In each
// measurement every viewer asks once.
func (e *environment) coldBench(ctx context.Context) {
	first, viewers := e.viewers, min(coldViewers, e.board-e.viewers) // the first ones have their sets
	e.befriend(ctx, first, viewers)
	requests := e.friendRequests("steps", first, viewers, pageRows, "")
	measure := func(ctx context.Context) float64 {
		start := time.Now()
		askOnce(ctx, e.service, requests)
		return float64(viewers) / time.Since(start).Seconds()
	}
	warm := &row{name: "sets in Redis", process: e.service, measure: measure}
	cold := &row{name: "sets not in Redis", process: e.service, measure: measure, base: warm, prepare: func(ctx context.Context) {
		e.dropFriendSets(ctx, first, viewers)
	}}
	// Every name that a ranking needs gets into Redis, where it stays for days.
	measure(ctx)
	e.printTable(ctx, fmt.Sprintf("friend rankings of %d viewers", viewers), warm, cold)
}

// bareEntry and bareResponse are the service's response, for encoding/json.
type bareEntry struct {
	Rank      int    `json:"rank"`
	UserID    string `json:"user_id"`
	Nickname  string `json:"nickname"`
	AvatarURL string `json:"avatar_url"`
	Score     int64  `json:"score"`
	ReachedAt string `json:"reached_at"`
}

type bareResponse struct {
	Board      string      `json:"board"`
	Date       string      `json:"date"`
	Source     string      `json:"source"`
	Final      bool        `json:"final"`
	Total      int         `json:"total"`
	Me         *bareEntry  `json:"me"`
	Entries    []bareEntry `json:"entries"`
	NextCursor *string     `json:"next_cursor"`
}

// bare is a minimal handler to compare the service with: no token, no log, no
// checks, encoding/json. Its answers are as long as the service's, but it makes names
// and pictures of the ids, where the service has to look them up.
type bare struct {
	rdb   redis.UniversalClient
	codec score.Codec
	keys  sharedKeys
}

// serveBare serves on a free port, whose address it logs as the service does, until ctx ends.
func serveBare(ctx context.Context, redisAddr string, keys sharedKeys) error {
	codec := score.Of(&models.Bucket{StartsAt: time.Now().Truncate(24 * time.Hour), TickMS: 1, TimeBits: 28})
	b := &bare{rdb: redis.NewClient(&redis.Options{Addr: redisAddr}), codec: codec, keys: keys}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.GET("/rank/:user", b.rank)
	engine.POST("/score/:user", b.score)
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, `{"msg":"serving","addr":"%v"}`+"\n", l.Addr())
	server := &http.Server{Handler: engine, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// rank reads SMEMBERS and ZMSCORE, sorts, and responds.
func (b *bare) rank(c *gin.Context) {
	ctx, user := c.Request.Context(), c.Param("user")
	id, err := models.ParseRowID(user)
	if err != nil {
		c.Status(http.StatusNotFound)
		return
	}
	members, err := b.keys.friends(ctx, b.rdb, id)
	if err != nil {
		c.Status(http.StatusInternalServerError)
		return
	}
	members = append(members, user)
	scores, err := b.rdb.ZMScore(ctx, b.keys.board, members...).Result()
	if err != nil {
		c.Status(http.StatusInternalServerError)
		return
	}
	entries := make([]bareEntry, 0, len(members))
	order := make([]int, 0, len(members))
	for i := range members {
		if scores[i] != 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(scores[y], scores[x]), cmp.Compare(members[y], members[x]))
	})
	response := bareResponse{Board: "steps", Date: "2026-11-20", Source: "hot", Total: len(order)}
	for rank, i := range order {
		if rank >= pageRows && members[i] != user {
			continue
		}
		points, at := b.codec.Decode(models.Composite(scores[i]))
		entry := bareEntry{
			Rank: rank + 1, UserID: members[i], Nickname: namePrefix + members[i], AvatarURL: picturePrefix + members[i] + pictureSuffix,
			Score: int64(points), ReachedAt: at.Time().Format("2006-01-02T15:04:05.000Z"),
		}
		if members[i] == user {
			response.Me = &entry
		}
		if rank < pageRows {
			entries = append(entries, entry)
		}
	}
	response.Entries = entries
	c.JSON(http.StatusOK, response)
}

// score makes one ZADD.
func (b *bare) score(c *gin.Context) {
	var in struct {
		Date  string `json:"date"`
		Score int64  `json:"score"`
	}
	if err := json.NewDecoder(c.Request.Body).Decode(&in); err != nil {
		c.Status(http.StatusBadRequest)
		return
	}
	if err := b.rdb.ZAdd(c.Request.Context(), uploadKey, redis.Z{Score: float64(in.Score), Member: c.Param("user")}).Err(); err != nil {
		c.Status(http.StatusInternalServerError)
		return
	}
	c.JSON(http.StatusOK, gin.H{"accepted": []gin.H{{"date": in.Date, "score": in.Score, "reached_at": time.Now().UTC().Format("2006-01-02T15:04:05.000Z")}}})
}

// sharedKeys names the service's own keys. The loop, the bare handler and the
// service read the same sets, because a copy would be laid out better in memory.
type sharedKeys struct {
	keys.Builder
	board string
}

// friends reads a user's friend set, without its stamp.
func (k sharedKeys) friends(ctx context.Context, rdb redis.Cmdable, user models.RowID) ([]string, error) {
	members, err := rdb.SMembers(ctx, k.set(user)).Result()
	return slices.DeleteFunc(members, func(m string) bool { return m[0] == '-' }), err
}

func (k sharedKeys) set(user models.RowID) string { return k.Set(keys.Friends, int64(user)) }

// uploadKey names a copy of the board, which the bare handler's uploads change.
const uploadKey = "bare:uploads"
