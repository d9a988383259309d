package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stepboard/models"
)

const (
	// edgeBatch is how many friendships one transaction adds.
	edgeBatch = 2000
	// maxLine bounds a line of an import file, in bytes.
	maxLine = 1 << 20
)

// importFriends reads an edge list. Blank lines and those that begin with #
// are passed over.
func importFriends(ctx context.Context, a *App, in io.Reader, offset int64, r *report) error {
	var (
		edges []models.Edge
		at    []int // line numbers
		added int
	)
	flush := func() error {
		// A batch goes on to its end once it has begun.
		if err := ctx.Err(); err != nil {
			return err
		}
		n, rejected, err := a.Friends.Import(ctx, edges)
		if err != nil {
			return err
		}
		added += n
		for _, bad := range rejected {
			if err := r.skip(at[bad.Index], bad.Err); err != nil {
				return err
			}
		}
		edges, at = edges[:0], at[:0]
		return nil
	}
	err := eachLine(ctx, in, func(number int, line string) error {
		if line == "" || line[0] == '#' {
			return nil
		}
		r.line()
		edge, err := parseEdge(line, offset)
		if err != nil {
			return r.skip(number, err)
		}
		edges, at = append(edges, edge), append(at, number)
		if len(edges) == edgeBatch {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	r.add("new friendships", added)
	return nil
}

// parseEdge reads two user numbers, separated by spaces, a tab or a comma.
func parseEdge(line string, offset int64) (models.Edge, error) {
	fields := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
	if len(fields) != 2 {
		return models.Edge{}, fmt.Errorf("%d fields instead of two user numbers", len(fields))
	}
	var ids [2]models.UserID
	for i, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return models.Edge{}, fmt.Errorf("%q is not a user number", field)
		}
		ids[i] = models.UserID(n + offset)
		// Both bounds, so that the sum can't wrap around into the range.
		if n > int64(models.MaxUserID) || n < -int64(models.MaxUserID) || !ids[i].Valid() {
			return models.Edge{}, fmt.Errorf("user number %s with offset %d is outside 1 … %d", field, offset, models.MaxUserID)
		}
	}
	return models.Edge{A: ids[0], B: ids[1]}, nil
}

// eachLine reads a text line by line until ctx ends. Lines are counted from 1
// and come without the spaces around them, and without the mark of UTF-8 that
// some programs put before the first.
func eachLine(ctx context.Context, in io.Reader, do func(number int, line string) error) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	for number := 1; scanner.Scan(); number++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line := scanner.Text()
		if number == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if err := do(number, strings.TrimSpace(line)); err != nil {
			return err
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes: this is no import file", maxLine)
	} else if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	return nil
}
