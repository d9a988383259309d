package main

import (
	"context"
	"fmt"
	"strings"
)

const (
	// rankingCallers is the number of concurrent rankings, except in part near.
	rankingCallers = 32
	// uploadCallers is the number of concurrent uploads.
	uploadCallers = 64
)

// servingBench measures rankings and uploads.
func (e *environment) servingBench(ctx context.Context) {
	bare := e.startBare(ctx)
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
