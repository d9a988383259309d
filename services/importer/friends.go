package importer

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stepboard/models"
	"stepboard/services/friends"
)

// friendshipBatch is how many friendships one transaction adds.
const friendshipBatch = 2000

// friendsImport stores the friendships of one file.
type friendsImport struct {
	friends Friends
	report  Report
	edges   []friends.Edge
	lines   []int // the line number of each edge
	added   int
}

// ImportFriends reads two user ids a line and stores the friendships. An offset other
// than 0 is added to the ids, which are numbers then. Blank lines, and comments, which
// begin with "# ", are skipped. added
// counts the friendships that did not exist before. After an error, or when ctx
// ends, batches that are stored remain.
func (s *Service) ImportFriends(ctx context.Context, in io.Reader, offset int64, report Report) (added int, err error) {
	f := &friendsImport{friends: s.Friends, report: report}
	err = EachLine(ctx, in, func(number int, line string) error {
		if line == "" || IsComment(line) {
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

// IsComment reports whether a line of a file of friendships is a comment. An id may
// begin with #, but has no spaces.
func IsComment(line string) bool {
	return line == "#" || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "#\t")
}

// ParseEdge reads two user ids: as CSV, quoted or not, or unquoted and separated by
// spaces or a tab. An offset other than 0 is added to each of them; they must be whole
// numbers then, and 1 or more afterwards.
func ParseEdge(line string, offset int64) (friends.Edge, error) {
	fields, err := edgeFields(line)
	if err != nil {
		return friends.Edge{}, err
	}
	if len(fields) != 2 {
		return friends.Edge{}, fmt.Errorf("%d fields instead of two user ids", len(fields))
	}
	var ids [2]models.UserID
	for i, field := range fields {
		if offset != 0 {
			if field, err = addOffset(field, offset); err != nil {
				return friends.Edge{}, err
			}
		}
		if ids[i], err = parseUser(field); err != nil {
			return friends.Edge{}, err
		}
	}
	return friends.Edge{A: ids[0], B: ids[1]}, nil
}

// edgeFields splits a line. A user id may hold commas and quotes, but only in a quoted
// field.
func edgeFields(line string) ([]string, error) {
	if strings.HasPrefix(line, `"`) || strings.Contains(line, ",") {
		fields, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil {
			return nil, fmt.Errorf("not valid CSV: %w", err)
		}
		return fields, nil
	}
	return strings.Fields(line), nil
}

// addOffset adds the offset to a number.
func addOffset(field string, offset int64) (string, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
	if err != nil {
		return "", fmt.Errorf("%q is not a number, to which --offset could be added", field)
	}
	sum := n + offset
	if sum < 1 || (offset > 0) != (sum > n) {
		return "", fmt.Errorf("%s with offset %d is not 1 or more", field, offset)
	}
	return strconv.FormatInt(sum, 10), nil
}
