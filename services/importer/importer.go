// Package importer reads files of friendships and of steps and stores what they
// hold.
package importer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"stepboard/models"
	"stepboard/services/catalog"
	"stepboard/services/friends"
)

// maxLine is the longest line of an import file, in bytes.
const maxLine = 1 << 20

// Friends stores friendships. Implemented by friends.Service.
type Friends interface {
	// Resolve returns edges by the rows of their users, and creates those users that do
	// not exist.
	Resolve(ctx context.Context, edges []friends.Edge) ([]models.Edge, error)
	// Prepare looks up which of them are friendships already, and leaves out those that are
	// among edges before.
	Prepare(ctx context.Context, edges []models.Edge, before friends.Prepared) (friends.Prepared, error)
	ImportPrepared(ctx context.Context, p friends.Prepared) (added int, rejected []friends.Rejected, err error)
}

// Directory maps users to their rows. Implemented by directory.Service.
type Directory interface {
	// EnsureMany returns the row of each user, by position, and creates those users that
	// do not exist.
	EnsureMany(ctx context.Context, users []models.UserID) ([]models.RowID, error)
}

// Buckets finds the buckets of days. Implemented by catalog.Buckets.
type Buckets interface {
	ForImport(ctx context.Context, b *catalog.Board, day models.Date, now time.Time) (*models.Bucket, error)
}

// Archive moves a cold bucket to the archive. Implemented by archive.Service.
type Archive interface {
	Archive(ctx context.Context, b *models.Bucket, progress func(moved int64)) (models.ArchiveRun, error)
}

// Report receives the progress of an import. It must be safe for concurrent use.
type Report interface {
	// Line counts a line with content that was read.
	Line()
	// Done counts lines that were read well and are stored now.
	Done(lines int)
	// BadLine reports a line that is not imported. Its error ends the import.
	BadLine(number int, reason error) error
}

// Service imports files. Safe for concurrent use.
type Service struct {
	Friends   Friends
	Directory Directory
	Buckets   Buckets
	Archive   Archive
	// RaiseHot raises totals of days that take uploads: at once or through the
	// queue. RaiseCold raises totals of days that are archived next. Both return
	// nil if all are raised, otherwise one error for each.
	RaiseHot, RaiseCold func(ctx context.Context, raises []models.Raise) []error
	Clock               models.Clock
}

// EachLine calls do for each line of a text until ctx ends or do fails. Lines
// are numbered from 1 and come without surrounding spaces; the first one comes
// without a byte order mark.
func EachLine(ctx context.Context, in io.Reader, do func(number int, line string) error) error {
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
