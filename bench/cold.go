package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stepboard/models"
)

// coldViewers is how many viewers have the sets that Redis lacks.
const coldViewers = 10_000

// coldBench compares friend rankings whose friend sets Redis lacks, as it does for most
// viewers who open the app a few times a day, with those whose sets it has. In each
// measurement every viewer asks once.
func (e *environment) coldBench(ctx context.Context) error {
	postgres, err := findPostgres(ctx, e.stores.Pool)
	if err != nil {
		return err
	}
	viewers := make([]models.RowID, min(coldViewers, e.board-e.viewers))
	for i := range viewers {
		viewers[i] = viewer(e.viewers + i)
	}
	if err := e.storeFriendships(ctx, viewers); err != nil {
		return err
	}
	requests := make([][]byte, len(viewers))
	for i, v := range viewers {
		token, err := e.token(userID(v), "")
		if err != nil {
			return err
		}
		requests[i] = httpRequest("GET", fmt.Sprintf("/v1/boards/steps/friends?limit=%d", e.limit), token, "")
	}
	measure := func(ctx context.Context) (float64, error) {
		start := time.Now()
		err := e.askOnce(ctx, e.service.addr, requests)
		return float64(len(requests)) / time.Since(start).Seconds(), err
	}
	warm := &nameRow{viewers: len(viewers), row: row{name: "sets in Redis", process: e.service, postgres: postgres, measure: measure}}
	cold := &nameRow{viewers: len(viewers), row: row{name: "sets not in Redis", process: e.service, postgres: postgres, measure: measure}}
	// Every name that a ranking needs gets into Redis, where it stays for days.
	if _, err := measure(ctx); err != nil {
		return err
	}
	for range e.rounds {
		if err := warm.run(ctx, e); err != nil {
			return err
		}
		if err := e.dropFriendSets(ctx, viewers); err != nil {
			return err
		}
		if err := cold.run(ctx, e); err != nil {
			return err
		}
	}
	fmt.Printf("\n| friend ranking, %d friends, board of %d, pages of %d | viewers | a second | ratio | Redis, µs of CPU each | server | Postgres | client |\n", e.friends, e.board, e.limit)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range []*nameRow{warm, cold} {
		fmt.Printf("| %s | %d | %.0f | %.2f | %.0f | %.0f | %.1f | %.0f |\n",
			r.name, r.viewers, r.median(), r.median()/warm.median(), r.redis.each(), r.server.each(), r.sql.each(), r.client.each())
	}
	return nil
}

// storeFriendships stores random friends of users in Postgres.
func (e *environment) storeFriendships(ctx context.Context, users []models.RowID) error {
	sets, err := e.randomFriends(ctx, users)
	if err != nil {
		return err
	}
	var rows [][]any
	for user, friends := range sets {
		for _, friend := range friends {
			rows = append(rows, []any{user, friend})
		}
	}
	return pgx.BeginFunc(ctx, e.stores.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "CREATE TEMPORARY TABLE pairs (a bigint, b bigint) ON COMMIT DROP"); err != nil {
			return err
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"pairs"}, []string{"a", "b"}, pgx.CopyFromRows(rows)); err != nil {
			return err
		}
		for _, statement := range []string{
			"INSERT INTO friendships SELECT a, b, now() FROM pairs UNION SELECT b, a, now() FROM pairs ON CONFLICT DO NOTHING",
			"ANALYZE friendships", // otherwise autovacuum might run during a measurement
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", strings.Fields(statement)[0], err)
			}
		}
		return nil
	})
}

// dropFriendSets removes the friend sets of users from Redis.
func (e *environment) dropFriendSets(ctx context.Context, users []models.RowID) error {
	pipe := e.rdb.Pipeline()
	for _, user := range users {
		pipe.Unlink(ctx, e.keys.set(user))
	}
	_, err := pipe.Exec(ctx)
	return err
}
