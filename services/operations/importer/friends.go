package importer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"stepboard/models"
	"stepboard/services/people/friends"
)

// friendsImport stores the friendships of one file.
type friendsImport struct {
	service *Service
	report  Report
	check   *lineCheck
	pace    *pace
	edges   []friends.Edge   // of the next chunk
	lines   []int            // the line number of each edge
	passed  friends.Prepared // the chunk before, which may be being stored

	growth *growth

	// stored counts friendships, and skipped rows that are none. Each is written by one of the two
	// goroutines of inChunks.
	stored, skipped FriendsResult
	// refused says that edges of the chunk before were refused.
	refused bool
}

// friendsChunk is a number of friendships that are stored together.
type friendsChunk struct {
	friends.Prepared
	lines []int
	// lookup is how long it took to look up the users and friendships, and to create users.
	lookup time.Duration
}

// FriendsResult counts what an import of friendships has done.
type FriendsResult struct {
	// Added is the number of new friendships, Existing that of rows whose friendship was there.
	Added, Existing int
	// Self is the number of rows that connect somebody with themselves, OneWay that of rows of
	// one direction whose other direction made the friendship, LeftOut that of rows which --where
	// does not take.
	Self, OneWay, LeftOut int
}

// ImportFriends reads a file as EachEdge does and stores the friendships. A file of bad lines is an
// error, at the latest after onlyBad of them. After an error, or when ctx ends, chunks that are stored
// remain; a chunk that is being stored when ctx ends is completed.
func (s *Service) ImportFriends(ctx context.Context, in io.Reader, o FriendsOptions, report Report) (FriendsResult, error) {
	f := &friendsImport{
		service: s, report: report, check: newLineCheck(report, edgesExpected), pace: s.newPace(o.Gently, gentleFriends), growth: s.growthOf("users", "friendships"),
	}
	o.Note = report.Note
	err := inChunks(ctx, in, o.Gently, func(ctx context.Context, pass func(friendsChunk) error) error {
		return f.read(ctx, in, o.EdgesOptions, pass)
	}, f.store)
	f.growth.end(ctx)
	result := f.skipped
	result.Added, result.Existing = f.stored.Added, f.stored.Existing
	return result, err
}

// FriendsOptions holds the options of ImportFriends.
type FriendsOptions struct {
	EdgesOptions

	// Gently halves the rate, in favor of everything else that uses the stores.
	Gently bool
}

// read reads the file and passes on the friendships.
func (f *friendsImport) read(ctx context.Context, in io.Reader, o EdgesOptions, pass func(friendsChunk) error) error {
	err := EachEdge(ctx, in, o, func(number int, edge friends.Edge, bad error) error {
		f.report.Line()
		switch {
		case errors.Is(bad, ErrSelf):
			f.skipped.Self++
			return nil
		case errors.Is(bad, ErrOneWay):
			f.skipped.OneWay++
			return nil
		case errors.Is(bad, ErrLeftOut):
			f.skipped.LeftOut++
			return nil
		case bad != nil:
			return f.check.bad(number, bad)
		}
		f.check.good(number, edge.A, edge.B)
		f.edges, f.lines = append(f.edges, edge), append(f.lines, number)
		if len(f.edges) < f.pace.size() {
			return nil
		}
		return f.flush(ctx, pass)
	})
	if err == nil {
		err = f.check.end()
	}
	if err != nil {
		return err
	}
	return f.flush(ctx, pass)
}

// flush looks up the chunk that was read and passes it on.
func (f *friendsImport) flush(ctx context.Context, pass func(friendsChunk) error) error {
	if err := ctx.Err(); err != nil || len(f.edges) == 0 {
		return err
	}
	start := time.Now()
	rows, err := f.service.Friends.Resolve(ctx, f.edges)
	if err != nil {
		return err
	}
	if rows, err = f.leaveOutUnknown(rows); err != nil || len(rows) == 0 {
		f.edges, f.lines = f.edges[:0], nil
		return err
	}
	// A file often has each friendship twice, once for each user.
	prepared, err := f.service.Friends.Prepare(ctx, rows, f.passed)
	if err != nil {
		return err
	}
	f.passed = prepared
	chunk := friendsChunk{Prepared: prepared, lines: f.lines, lookup: time.Since(start)}
	f.edges, f.lines = f.edges[:0], nil
	return pass(chunk)
}

// leaveOutUnknown returns the rows of those edges whose users are there, and reports the lines of the others, which it takes
// from the chunk.
func (f *friendsImport) leaveOutUnknown(rows []models.Edge) (known []models.Edge, err error) {
	lines := f.lines[:0]
	for n, edge := range rows {
		switch {
		case edge.A != 0 && edge.B != 0:
			known, lines = append(known, edge), append(lines, f.lines[n])
		case edge.A == 0:
			err = cmp.Or(err, f.report.BadLine(f.lines[n], models.NoUser(f.edges[n].A)))
		default:
			err = cmp.Or(err, f.report.BadLine(f.lines[n], models.NoUser(f.edges[n].B)))
		}
	}
	f.lines = lines
	return known, err
}

// store stores a chunk and reports the lines that are rejected.
func (f *friendsImport) store(ctx context.Context, c friendsChunk) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	if f.refused { // edges that were left out because the chunk before had them may be refused, too
		again, err := f.service.Friends.Prepare(ctx, c.Edges, friends.Prepared{})
		if err != nil {
			return err
		}
		c.Prepared, f.refused = again, false
	}
	if err := f.storeEdges(ctx, c.Prepared, c.lines); err != nil {
		return err
	}
	f.pace.stored(ctx, len(c.Edges), c.lookup, time.Since(start))
	return nil
}

// storeEdges stores friendships. If the stores do not manage them in the time that a
// change may take, it stores each half by itself: on a busy machine a chunk may take
// several times as long as its size lets expect.
func (f *friendsImport) storeEdges(ctx context.Context, p friends.Prepared, lines []int) error {
	added, rejected, err := f.service.Friends.ImportPrepared(ctx, p)
	if models.CodeOf(err) == models.CodeUnavailable && len(p.Edges) > minChunk && ctx.Err() == nil {
		first, second := p.Halves()
		if err := f.storeEdges(ctx, first, lines[:len(first.Edges)]); err != nil {
			return err
		}
		return f.storeEdges(ctx, second, lines[len(first.Edges):])
	}
	if err != nil {
		return err
	}
	f.stored.Added += added
	f.stored.Existing += len(p.Edges) - added - len(rejected)
	f.growth.add(ctx, 2*added)
	f.refused = f.refused || len(rejected) > 0
	for _, r := range rejected {
		if err := f.report.BadLine(lines[r.Index], r.Err); err != nil {
			return err
		}
	}
	f.report.Done(len(p.Edges))
	return nil
}
