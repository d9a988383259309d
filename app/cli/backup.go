package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/failpoint"
	"stepboard/internal/stores"
	"stepboard/services/operations/erasure"
)

func (p *program) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a copy of a data folder's database to a file",
		Long: "Write a copy of a data folder's database, as it is now, to a file, also while the folder is served. The copy\n" +
			"was checked, only this account can read it, and the file is complete or as it was before. It replaces no\n" +
			"link, and writes no file or pipe of another account. Meanwhile the folder needs as much free space as the\n" +
			"database takes. The file secret of the folder is not in it.",
		Args: cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			if p.app == nil {
				if err := p.checkBackup(); err != nil {
					return err
				}
			}
			return p.runOnApp(ctx, func(a *app.App) error { return p.backup(ctx, a, args[0]) })
		}),
	}
}

// checkBackup returns an error if the settings name no data folder with a database.
func (p *program) checkBackup() error {
	cfg, err := p.loadFor((*config.Config).RequireStores)
	switch {
	case err != nil:
		return err
	case cfg.Data.Dir == "":
		return errors.New("backup is for data folders: back up Redis and Postgres with their own programs")
	case !stores.HasDatabase(cfg.Data.Dir):
		return fmt.Errorf("data folder %s has no database", cfg.Data.Dir)
	default:
		return nil
	}
}

func (p *program) backup(ctx context.Context, a *app.App, path string) error {
	line := p.progressLine()
	line.Show("copying the database")
	var written int64
	var secret string
	err := a.Backup(ctx, func(folder *stores.Folder, copied *os.File) error {
		secret = folder.Path(secretName)
		return p.writeFile(path, func(w io.Writer) (err error) {
			written, err = stores.Copy(ctx, w, copied, func(n int64) { line.Show("%d MB written", n>>20) })
			return err
		})
	})
	line.Clear()
	if ctx.Err() != nil {
		return errors.New("interrupted: no backup was written")
	}
	if err != nil {
		return fmt.Errorf("back up to %s: %w", path, err)
	}
	fmt.Fprintf(p.stdout, "%d bytes were written to %s\n", written, path)
	if _, err := os.Stat(secret); err == nil {
		fmt.Fprintf(p.stdout, "%s is not in it: keep a copy of that apart\n", secret)
	}
	return nil
}

func (p *program) restoreCommand() *cobra.Command {
	var erasures string
	var none bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup in place of a data folder's database",
		Long: "Put a file of `stepboard backup` in place of a data folder's database, which nobody may serve meanwhile. Users\n" +
			"who were erased since are erased again, as far as the replaced database or a file of\n" +
			"`stepboard erasures export` has their erasures. If the command fails, or is killed, the folder has one of\n" +
			"the two databases, complete, or none if it had none. The file secret of the folder stays.",
		Args: cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			if cfg.Data.Dir == "" {
				return errors.New("restore is for data folders: name one with --data")
			}
			r := &restoration{program: p, cfg: cfg, backup: args[0], erasures: erasures, none: none}
			return r.run(ctx)
		}),
	}
	cmd.Flags().StringVar(&erasures, "erasures", "", "also erase the users whose erasures are in this file")
	cmd.Flags().BoolVar(&none, "no-erasures", false, "restore although nobody knows who was erased since the backup")
	cmd.MarkFlagsMutuallyExclusive("erasures", "no-erasures")
	return cmd
}

// restoration puts a backup in place of a data folder's database.
type restoration struct {
	*program

	cfg              config.Config
	backup, erasures string // files
	none             bool
	folder           *stores.Folder
}

func (r *restoration) run(ctx context.Context) (err error) {
	r.folder, err = stores.LockFolder(r.cfg.Data.Dir)
	if errors.Is(err, stores.ErrFolderInUse) {
		return fmt.Errorf("%w: stop that first", err)
	}
	if err != nil {
		return err
	}
	defer r.folder.Close()
	erased, err := r.prepare(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted: the data folder is as it was before")
		}
		return errors.Join(err, r.folder.Discard(), r.folder.Undo())
	}
	if err := r.folder.Replace(); err != nil {
		return errors.Join(err, r.folder.Discard(), r.folder.Undo())
	}
	fmt.Fprintf(r.stdout, "%s was restored to data folder %s; %d users are erased again\n", r.backup, r.folder.Dir, erased)
	if _, err := os.Stat(r.folder.Path(secretName)); err != nil && r.cfg.Auth.None() {
		fmt.Fprintf(r.stdout, "There is no %s: put the former one there, or serve makes another and refuses the tokens of users.\n",
			filepath.Join(r.folder.Dir, secretName))
	}
	return nil
}

// prepare makes the database that is to replace the folder's, and returns how many users are erased
// again in it.
func (r *restoration) prepare(ctx context.Context) (erased int64, err error) {
	o := app.Options{Config: r.cfg, Log: r.newLogger(r.cfg.Log), Clock: newClock(r.cfg), KeepStoredBoards: true}
	line := r.progressLine()
	o.Stores, err = r.folder.Prepare(ctx, o.Clock, r.backup, func(n int64) { line.Show("%d MB read", n>>20) })
	line.Clear()
	if err != nil {
		return 0, err
	}
	a, err := startApp(ctx, o)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.backup, err)
	}
	erased, err = r.erase(ctx, a)
	return erased, errors.Join(err, a.Close())
}

// erase erases the users again who were erased since the backup.
func (r *restoration) erase(ctx context.Context, a *app.App) (erased int64, err error) {
	replaced, unknown := r.replaced(ctx)
	if unknown == nil {
		erased, err = a.TakeOver(ctx, replaced)
		if errors.Is(err, erasure.ErrUnrelated) {
			unknown, err = err, nil
		}
	}
	if unknown != nil && r.erasures == "" && !r.none {
		return 0, fmt.Errorf("nobody knows who was erased since %s was made, as the database of data folder %s %w: "+
			"name a file of `stepboard erasures export` with --erasures, or use --no-erasures", r.backup, r.folder.Dir, unknown)
	}
	if unknown != nil && err == nil {
		_, err = a.TakeOver(ctx, nil)
	}
	if err != nil {
		return erased, err
	}
	if r.erasures != "" {
		n, err := r.eraseAgain(ctx, a, r.erasures)
		erased += n
		if err != nil {
			return erased, err
		}
	}
	failpoint.Hit("restore.erased")
	if erased == 0 {
		return 0, nil
	}
	_, err = a.Erasure.Run(ctx) // nothing of them is sent at the first start
	return erased, err
}

// replaced reads the folder's database and closes it. The error says in what state that is.
func (r *restoration) replaced(ctx context.Context) (*app.Replaced, error) {
	old, err := r.folder.OpenReplaced(ctx, newClock(r.cfg))
	if err != nil {
		return nil, err
	}
	replaced, err := app.ReadReplaced(ctx, old)
	if err = errors.Join(err, old.Close()); err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	return replaced, nil
}
