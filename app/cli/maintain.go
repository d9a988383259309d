package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/app/move"
	"stepboard/config"
	"stepboard/internal/stores"
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

func (p *program) rebuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Restore the boards from the queue and the ledger",
		Long: "Make event and rolling boards equal to Postgres, after Redis has lost scores, or after Postgres was\n" +
			"restored to an earlier moment and boards show more than it has. Raise daily boards to the updates that\n" +
			"the queue still holds; without a queue, days in Redis can't be restored. Load friend lists again. Move the\n" +
			"counters of users past those that Redis has seen, and drop its copies of names.\n" +
			"It may run while the service runs, and again.",
		RunE: p.onApp(p.rebuild),
	}
}

func (p *program) rebuild(ctx context.Context, a *app.App, _ []string) error {
	if err := a.Sets.DropAll(ctx); err != nil {
		return err
	}
	skipped, err := a.Directory.Rebuild(ctx)
	if err != nil {
		return err
	}
	if skipped > 0 {
		fmt.Fprintf(p.stdout, "the database was older than Redis: %d row ids are left out, so that nobody gets somebody else's scores\n", skipped)
	}
	var lowered int64
	err = p.replay("totals", func(progress func(int64)) (int64, error) {
		rebuilt, err := a.Reconciler.Rebuild(ctx, progress)
		lowered = rebuilt.Lowered
		return rebuilt.Totals, err
	})
	if lowered > 0 {
		fmt.Fprintf(p.stdout, "%d entries were more than the ledger has, and were lowered or removed\n", lowered)
	}
	if err != nil || a.Replayer == nil {
		return err
	}
	return p.replay("updates", func(progress func(int64)) (int64, error) { return a.Replayer.ReplaySince(ctx, time.Time{}, progress) })
}

// replay applies totals or updates again and prints how many.
func (p *program) replay(what string, apply func(progress func(applied int64)) (int64, error)) error {
	line, start := p.progressLine(), time.Now()
	n, err := apply(func(applied int64) { line.Show("%d %s", applied, what) })
	line.Clear()
	if err != nil {
		return fmt.Errorf("after %d %s: %w", n, what, err)
	}
	fmt.Fprintf(p.stdout, "%d %s applied again, in %v\n", n, what, time.Since(start).Round(time.Millisecond))
	return nil
}

func (p *program) migrateCommand() *cobra.Command {
	up := &cobra.Command{
		Use:   "up",
		Short: "Apply pending migrations",
		RunE: p.onStores(func(ctx context.Context, s *stores.Stores) error {
			applied, err := s.Migrate(ctx)
			if err != nil {
				return err
			}
			for _, m := range applied {
				fmt.Fprintf(p.stdout, "applied %s\n", m.Source.Path)
			}
			if len(applied) == 0 {
				fmt.Fprintln(p.stdout, "the schema is up to date")
			}
			return nil
		}),
	}
	status := &cobra.Command{
		Use:   "status",
		Short: "Print the schema's version and the version that this binary needs",
		RunE: p.onStores(func(ctx context.Context, s *stores.Stores) error {
			current, newest, err := s.SchemaVersions(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(p.stdout, "the schema is at version %d; this binary needs %d\n", current, newest)
			return nil
		}),
	}
	return p.group("migrate", "Bring the schema up to date, or print its version", up, status)
}

// onStores adapts a command's work on Postgres, without the service, to cobra.
func (p *program) onStores(work func(context.Context, *stores.Stores) error) func(*cobra.Command, []string) error {
	return p.onSettings((*config.Config).RequireStores, func(ctx context.Context, cfg config.Config, _ []string) error {
		if cfg.Data.Dir != "" {
			return errors.New("migrate is for Postgres: the schema of a data folder is brought up to date when the folder is opened")
		}
		s, err := stores.OpenForCommand(ctx, cfg, newClock(cfg))
		if err != nil {
			return err
		}
		return errors.Join(work(ctx, s), s.Close())
	})
}

func (p *program) cursorsCommand() *cobra.Command {
	return p.group("cursors", "Manage the keys that seal cursors", &cobra.Command{
		Use:   "rotate",
		Short: "Seal cursors with a new key",
		Long: "Add a key, with which all processes seal cursors within a minute. Cursors of the key before it are\n" +
			"accepted for another day.",
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			if err := a.RotateCursors(ctx); err != nil {
				return err
			}
			fmt.Fprintln(p.stdout, "a new key seals cursors; those of the one before are accepted for a day")
			return nil
		}),
	})
}

func (p *program) moveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "move",
		Short: "Move a data folder to Redis and Postgres",
		Long: `Move a data folder to the Redis and Postgres of the settings, which must be empty. Nothing serves the
folder meanwhile, nor afterwards. What was moved is compared before it may be served. A move that was
cut off goes on when it is called again; until then nothing serves the folder or the servers.`,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			p.both = true
			cfg, err := p.load((*config.Config).RequireMove)
			if err != nil {
				return err
			}
			return p.move(ctx, cfg)
		}),
	}
}

// move moves the data folder of the settings to their servers.
func (p *program) move(ctx context.Context, cfg config.Config) error {
	if info, err := os.Stat(cfg.Data.Dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", cfg.Data.Dir)
	}
	folder, err := stores.LockFolderToMove(cfg.Data.Dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	if folder.New {
		return fmt.Errorf("data folder %s has no data", folder.Dir)
	}
	started, line := time.Now(), p.progressLine()
	servers := cfg
	servers.Data.Dir = ""
	summary, err := move.Run(ctx, move.Options{
		Folder: folder, Config: servers, Clock: newClock(cfg), Log: p.newLogger(cfg.Log), Where: serversText(cfg), Progress: line.Show,
	})
	line.Clear()
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted: what was copied stays, and the same command goes on")
		}
		return err
	}
	fmt.Fprintf(p.stdout, "%d rows, %d archived scores of %d days and %d entries of boards are in %s, compared, in %v.\n",
		summary.Rows, summary.Archived, summary.Buckets, summary.Entries, serversText(cfg), time.Since(started).Round(time.Millisecond))
	fmt.Fprintln(p.stdout, "Nothing serves the folder any more. Start stepboard serve with these settings, without data.dir.")
	for _, b := range summary.Boards {
		usual := config.Default().Boards[0] // of servers whose settings have none
		if len(cfg.Boards) == 0 && b.Name == usual.Name && (b.TimeZone != usual.TimeZone || string(b.Global) != usual.Global) {
			fmt.Fprintf(p.stdout, "Its days stay those of %s with this in the settings: boards: [{name: %s, time_zone: %s, global: %s}]\n",
				b.TimeZone, b.Name, b.TimeZone, b.Global)
		}
	}
	if _, err := os.Stat(folder.Path(secretName)); err == nil && cfg.Auth.HS256Secret == "" {
		fmt.Fprintf(p.stdout, "Tokens stay valid with the folder's secret: auth.hs256_secret is the content of %s.\n", folder.Path(secretName))
	}
	return nil
}

// serversText says which servers the settings name, without passwords.
func serversText(cfg config.Config) string {
	postgres := "Postgres"
	if c, err := pgx.ParseConfig(cfg.Postgres.DSN); err == nil {
		postgres = fmt.Sprintf("database %s of Postgres at %s:%d", c.Database, c.Host, c.Port)
	}
	return fmt.Sprintf("%s and Redis at %s", postgres, cfg.Redis.Addrs[0])
}
