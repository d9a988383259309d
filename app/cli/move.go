package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"stepboard/app/move"
	"stepboard/config"
	"stepboard/internal/stores"
)

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
