package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/operations/audit"
)

func (p *program) archiveCommand() *cobra.Command {
	var board, bucket, actor string
	cmd := &cobra.Command{
		Use:   "archive",
		Short: "Move cold days to Postgres now",
		Long: "Move cold days, which are older than hot_days and take no uploads, to Postgres now: every day that is due, or one day.\n" +
			"Updates that arrived after a day was archived are merged into it.",
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			buckets, err := bucketsToArchive(ctx, a, board, bucket)
			if err != nil {
				return err
			}
			return p.archive(ctx, a, buckets, actor)
		}),
	}
	cmd.Flags().StringVar(&board, "board", "", "archive only days of this board")
	cmd.Flags().StringVar(&bucket, "bucket", "", "archive only this day, YYYY-MM-DD, or event; needs --board if there are several boards")
	p.addActorFlag(cmd, &actor)
	return cmd
}

// bucketsToArchive returns the buckets that the flags ask for: the named one, or
// all that are due.
func bucketsToArchive(ctx context.Context, a *app.App, boardName, day string) ([]*models.Bucket, error) {
	if boardName != "" {
		if _, err := a.Catalog.Definitions.Board(boardName); err != nil {
			return nil, fmt.Errorf("--board %s: %s", boardName, publicMessage(err))
		}
	}
	if day != "" {
		bucket, err := namedBucket(ctx, a, boardName, day)
		if err != nil {
			return nil, fmt.Errorf("--bucket %s: %s", day, publicMessage(err))
		}
		return []*models.Bucket{bucket}, nil
	}
	due, err := a.Archive.Due(ctx)
	if err != nil {
		return nil, err
	}
	var buckets []*models.Bucket
	for _, b := range due {
		if boardName == "" || b.Board == boardName {
			buckets = append(buckets, b)
		}
	}
	return buckets, nil
}

// namedBucket returns one bucket. Without a board name the only board is meant.
func namedBucket(ctx context.Context, a *app.App, boardName, name string) (*models.Bucket, error) {
	if boardName == "" {
		boards := a.Catalog.Definitions.Boards()
		if len(boards) != 1 {
			return nil, errors.New("there are several boards: name one with --board")
		}
		boardName = boards[0].Name
	}
	b, err := a.Catalog.Definitions.Board(boardName)
	if err != nil {
		return nil, err
	}
	bucket, err := a.Catalog.Buckets.ByName(ctx, b, name)
	if errors.Is(err, catalog.ErrNoBucket) {
		return nil, fmt.Errorf("nothing was ever written to this bucket of board %s", boardName)
	}
	return bucket, err
}

// archive archives the buckets one by one and prints the result of each. If one
// fails, it goes on with the next.
func (p *program) archive(ctx context.Context, a *app.App, buckets []*models.Bucket, actor string) error {
	if len(buckets) == 0 {
		fmt.Fprintln(p.stdout, "nothing is due")
		return nil
	}
	line := p.progressLine()
	var failed []error
	for _, b := range buckets {
		start := time.Now()
		name := fmt.Sprintf("%s %v", b.Board, b.Day)
		entry := models.AuditEntry{Actor: actor, Action: "archive", Board: b.Board, Bucket: b.Name}
		run, err := audited(ctx, a, audit.Entry{AuditEntry: entry}, false, func() (models.ArchiveRun, error) {
			return a.Archive.Archive(ctx, b, func(moved int64) { line.Show("%s: %d entries", name, moved) })
		})
		line.Clear()
		if err != nil {
			failed = append(failed, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		fmt.Fprintf(p.stdout, "%s: run %d moved %d entries; the archive holds %d, sum of scores %d, in %v\n",
			name, run.Run, run.Moved, run.Entries, b.ScoreSum(run.Entries, run.PointsSum), time.Since(start).Round(time.Millisecond))
	}
	return errors.Join(failed...)
}
