package importer

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stepboard/models"
)

// friendshipBatch is how many friendships one transaction adds.
const friendshipBatch = 2000

// friendsImport stores the friendships of one file.
type friendsImport struct {
	friends Friends
	report  Report
	edges   []models.Edge
	lines   []int // the line number of each edge
	added   int
}

// ImportFriends reads two user numbers a line, adds offset to each and stores
// the friendships. Blank lines and lines that begin with # are skipped. added
// counts the friendships that did not exist before. After an error, or when ctx
// ends, batches that are stored remain.
func (s *Service) ImportFriends(ctx context.Context, in io.Reader, offset int64, report Report) (added int, err error) {
	f := &friendsImport{friends: s.Friends, report: report}
	err = EachLine(ctx, in, func(number int, line string) error {
		if line == "" || line[0] == '#' {
			return nil
		}
		report.Line()
		edge, err := ParseEdge(line, offset)
		if err != nil {
			return report.BadLine(number, err)
		}
		f.edges, f.lines = append(f.edges, edge), append(f.lines, number)
		if len(f.edges) == friendshipBatch {
			return f.flush(ctx)
		}
		return nil
	})
	if err != nil {
		return f.added, err
	}
	return f.added, f.flush(ctx)
}

// flush stores the batch and reports the lines that are rejected.
func (f *friendsImport) flush(ctx context.Context) error {
	// A batch can't be stopped once it has begun.
	if err := ctx.Err(); err != nil {
		return err
	}
	added, rejected, err := f.friends.Import(ctx, f.edges)
	if err != nil {
		return err
	}
	f.added += added
	for _, r := range rejected {
		if err := f.report.BadLine(f.lines[r.Index], r.Err); err != nil {
			return err
		}
	}
	f.edges, f.lines = f.edges[:0], f.lines[:0]
	return nil
}

// ParseEdge reads two user numbers, separated by spaces, a tab or a comma, and
// adds offset to each.
func ParseEdge(line string, offset int64) (models.Edge, error) {
	fields := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
	if len(fields) != 2 {
		return models.Edge{}, fmt.Errorf("%d fields instead of two user numbers", len(fields))
	}
	var ids [2]models.RowID
	for i, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return models.Edge{}, fmt.Errorf("%q is not a user number", field)
		}
		ids[i] = models.RowID(n + offset)
		// Both bounds of n are checked, so that the sum can't overflow into the
		// valid range.
		if n > int64(models.MaxRowID) || n < -int64(models.MaxRowID) || !ids[i].Valid() {
			return models.Edge{}, fmt.Errorf("user number %s with offset %d is outside 1 … %d", field, offset, models.MaxRowID)
		}
	}
	return models.Edge{A: ids[0], B: ids[1]}, nil
}
