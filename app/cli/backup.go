package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/backups"
	"stepboard/internal/failpoint"
	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/models"
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
	cfg, err := p.load((*config.Config).RequireStores)
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
	r := &restoration{program: p}
	var at string
	cmd := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Put a backup in place of a data folder's database",
		Long: "Put a file of `stepboard backup`, or what serve has copied to backup.to, in place of a data folder's database,\n" +
			"which nobody may serve meanwhile. With --at it is the database as of then. Users who were erased since are\n" +
			"erased again, as far as the replaced database, the newest copy of --from or a file of\n" +
			"`stepboard erasures export` has their erasures. If the command fails, or is killed, the folder has one of\n" +
			"the two databases, complete, or none if it had none. The file secret of the folder stays.",
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&r.from, "from", "", "instead of FILE: where serve has copied the database to, as in backup.to")
	cmd.Flags().StringVar(&at, "at", "", `with --from: as of when, such as 2026-11-20T18:30:00+08:00 (default the newest)`)
	cmd.Flags().StringVar(&r.erasures, "erasures", "", "also erase the users whose erasures are in this file")
	cmd.Flags().BoolVar(&r.none, "no-erasures", false, "restore although nobody knows who was erased since the backup")
	cmd.MarkFlagsMutuallyExclusive("erasures", "no-erasures")
	run := p.run(func(ctx context.Context, _ []string) (err error) {
		if r.cfg, err = p.load(nil); err != nil {
			return err
		}
		if r.cfg.Data.Dir == "" {
			return errors.New("restore is for data folders: name one with --data")
		}
		return r.run(ctx)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if (len(args) == 1) == (r.from != "") {
			return errors.New("name a file, or with --from where the database was copied to")
		}
		if r.from == "" {
			r.from = args[0]
			r.isFile = true
		}
		if at != "" {
			if r.isFile {
				return errors.New("--at is for --from: a file has one state")
			}
			if r.at, err = time.Parse(time.RFC3339, at); err != nil {
				return fmt.Errorf("--at: %q is no time with its zone, such as 2026-11-20T18:30:00+08:00", at)
			}
		}
		return run(cmd, args)
	}
	return cmd
}

// restoration puts a backup in place of a data folder's database.
type restoration struct {
	*program

	cfg      config.Config
	from     string // a file, or the address of a target
	isFile   bool
	at       time.Time // of a target; zero for the newest
	erasures string    // a file
	none     bool

	folder   *stores.Folder
	target   backups.Target // nil for a file
	restored backups.Restored
	revived  bool // upload addresses that were revoked since may be valid again
	headless bool // the backup has operators, but each was removed or erased since
}

func (r *restoration) run(ctx context.Context) (err error) {
	if !r.isFile {
		if r.target, err = openTarget(r.cfg, r.from); err != nil {
			return fmt.Errorf("--from: %w", err)
		}
	}
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
	if !r.isFile { // the copies of the folder go on from what was restored, if they go to where that is
		err = shipping.KeepBase(r.folder, r.from, r.restored)
	}
	if err == nil {
		err = r.folder.Replace()
	}
	if err != nil {
		return errors.Join(err, r.folder.Discard(), r.folder.Undo())
	}
	fmt.Fprintf(r.stdout, "%s was restored to data folder %s; %d users are erased again\n", r.from, r.folder.Dir, erased)
	r.printRestored()
	if r.revived {
		fmt.Fprintf(r.stdout, "All devices are signed out, and sign-in codes have ended. "+
			"Nobody knows which upload addresses were revoked since: they can be used again. "+
			"`stepboard upload-address list --user USER --data %s` lists those of a user.\n", r.folder.Dir)
	}
	if r.headless {
		fmt.Fprintf(r.stdout, "Nobody is an operator any more. `stepboard operators add USER --data %s` makes somebody one.\n", r.folder.Dir)
	}
	if _, err := os.Stat(r.folder.Path(secretName)); err != nil && r.cfg.Auth.None() {
		fmt.Fprintf(r.stdout, "There is no %s: put the former one there, or serve makes another and refuses the tokens of users.\n",
			filepath.Join(r.folder.Dir, secretName))
	}
	return nil
}

// printRestored prints what was restored of a target.
func (r *restoration) printRestored() {
	if r.isFile {
		return
	}
	fmt.Fprintf(r.stdout, "It is the database as of %s, of generation %d.\n", utc(r.restored.Time), r.restored.Generation)
	if r.restored.Unfinished > 0 {
		fmt.Fprintf(r.stdout, "Generation %d has no full copy yet: nothing that was committed in it is restored.\n", r.restored.Unfinished)
	}
}

// prepare makes the database that is to replace the folder's, and returns how many users are erased
// again in it.
func (r *restoration) prepare(ctx context.Context) (erased int64, err error) {
	var later []laterState
	if !r.at.IsZero() {
		later = append(later, r.newest(ctx))
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	o := app.Options{Config: r.cfg, Log: r.newLogger(r.cfg.Log), Clock: newClock(r.cfg), KeepStoredBoards: true}
	if o.Stores, r.restored, err = r.make(ctx, r.at); err != nil {
		return 0, err
	}
	a, err := startApp(ctx, o)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.from, err)
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	before, err := a.Sessions.Operators(ctx)
	if err != nil {
		return 0, err
	}
	if erased, err = r.erase(ctx, a, append(later, r.replaced(ctx))); err != nil {
		return erased, err
	}
	after, err := a.Sessions.Operators(ctx)
	r.headless = len(before) > 0 && len(after) == 0
	return erased, err
}

// make makes a database in the folder, beside its own, of the file or of the target's state as of a
// time, the newest for zero.
func (r *restoration) make(ctx context.Context, at time.Time) (st *stores.Stores, restored backups.Restored, err error) {
	line := r.progressLine()
	defer line.Clear()
	write := stores.FromBackup(r.from, func(n int64) { line.Show("%d MB read", n>>20) })
	if !r.isFile {
		write = func(ctx context.Context, path string) (err error) {
			restored, err = backups.Restore(ctx, r.target, path, at, func(p backups.Progress) {
				line.Show("%d MB in %d objects read", p.Bytes>>20, p.Objects)
			})
			if errors.Is(err, backups.ErrNoCopy) {
				return fmt.Errorf("%s %w", r.from, err)
			}
			return models.Wrap("restore from "+r.from, err)
		}
	}
	st, err = r.folder.Prepare(ctx, newClock(r.cfg), r.from, write)
	return st, restored, err
}

// laterState is a database that may be a later state of the restored one.
type laterState struct {
	name string
	has  *app.Replaced
	err  error // why it can't be used, after the name; nil if it can
}

// newest reads the newest state of the target.
func (r *restoration) newest(ctx context.Context) laterState {
	later := laterState{name: "the newest copy of " + r.from}
	st, _, err := r.make(ctx, time.Time{})
	if err == nil {
		later.has, err = app.ReadReplaced(ctx, st)
		err = errors.Join(err, st.Close())
	}
	later.err = models.Wrap("can't be read", err)
	return later
}

// replaced reads the folder's database and closes it.
func (r *restoration) replaced(ctx context.Context) laterState {
	later := laterState{name: "the database of data folder " + r.folder.Dir}
	old, err := r.folder.OpenReplaced(ctx, newClock(r.cfg))
	if err != nil {
		later.err = err
		return later
	}
	later.has, err = app.ReadReplaced(ctx, old)
	later.err = models.Wrap("can't be read", errors.Join(err, old.Close()))
	return later
}

// erase erases the users again who were erased since the backup.
func (r *restoration) erase(ctx context.Context, a *app.App, later []laterState) (erased int64, err error) {
	known := !r.isFile && r.at.IsZero() && r.restored.Unfinished == 0 // nothing of the target is later
	taken := false
	var unknown []error
	for _, l := range later {
		failed := l.err
		if failed == nil {
			var n int64
			n, failed = a.TakeOver(ctx, l.has)
			erased += n
			if failed == nil {
				taken = true
				continue
			}
			if !errors.Is(failed, erasure.ErrUnrelated) {
				return erased, failed
			}
		}
		unknown = append(unknown, fmt.Errorf("%s %w", l.name, failed))
	}
	if !known && !taken && r.erasures == "" && !r.none {
		since := r.from + " was made"
		switch {
		case !r.at.IsZero():
			since = utc(r.at)
		case r.restored.Unfinished > 0:
			since = fmt.Sprintf("generation %d began, which has no full copy yet", r.restored.Unfinished)
		}
		return 0, fmt.Errorf("nobody knows who was erased since %s, as %w: "+
			"name a file of `stepboard erasures export` with --erasures, or use --no-erasures", since, errors.Join(unknown...))
	}
	if r.revived = r.none && !known && !taken; r.revived {
		if err := a.Sessions.EndAll(ctx); err != nil {
			return 0, err
		}
	}
	if !taken {
		if _, err := a.TakeOver(ctx, nil); err != nil {
			return 0, err
		}
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
