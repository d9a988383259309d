package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/backups"
)

func (p *program) backupsCommand() *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "backups",
		Short: "List what serve has copied elsewhere of a data folder's database",
		Long: "List what serve has copied to backup.to: for each generation its number, when it began and on which machine,\n" +
			"from when until when the database can be restored, how many full copies and objects it has, and their bytes.",
		RunE: p.onSettings(nil, func(ctx context.Context, cfg config.Config, _ []string) error {
			if from == "" {
				from = cfg.Backup.To
			}
			if from == "" {
				return errors.New("nothing is copied anywhere: set backup.to, or name a target with --from")
			}
			target, err := openTarget(cfg, from)
			if err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			chains, err := backups.Describe(ctx, target)
			if err != nil {
				return fmt.Errorf("read %s: %w", from, err)
			}
			p.printChains(from, chains)
			return nil
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "where the database was copied to (default backup.to)")
	cmd.AddCommand(p.withSettings(p.backupsBeginCommand()))
	return cmd
}

func (p *program) backupsBeginCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "begin URL",
		Short: "Let a process whose copies are not at backup.to begin anew there",
		Long: "Let a process whose copies are not at backup.to begin anew there. Without this it waits: the folder may be the\n" +
			"one below a disk that is not mounted. It does so within ten seconds, or at its next start, with a full copy.\n" +
			"Nothing that is there is removed before its time.",
		Args: cobra.ExactArgs(1),
		RunE: p.onSettings(nil, func(ctx context.Context, cfg config.Config, args []string) error {
			target, err := openTarget(cfg, args[0])
			if err != nil {
				return err
			}
			text, err := json.Marshal(backups.Beginning{AskedAt: newClock(cfg)().UTC()})
			if err == nil {
				err = target.Create(ctx, backups.BeginObject, bytes.NewReader(text), int64(len(text)))
			}
			if err != nil && !errors.Is(err, backups.ErrExists) {
				return fmt.Errorf("write to %s: %w", args[0], err)
			}
			fmt.Fprintf(p.stdout, "A process whose copies are not at %s begins anew there.\n", args[0])
			return nil
		}),
	}
}

// openTarget returns the target of an address, with the keys of the settings.
func openTarget(cfg config.Config, address string) (backups.Target, error) {
	cfg.Backup.To = address
	return backups.Open(cfg.Backup)
}

// printChains prints a line for each generation, and what is wrong with it.
func (p *program) printChains(from string, chains []backups.Chain) {
	if len(chains) == 0 {
		fmt.Fprintf(p.stdout, "%s has no copies\n", from)
		return
	}
	fmt.Fprintln(p.stdout, "generation\tbegan\thost\tfrom\tto\tfull copies\tobjects\tbytes")
	for _, c := range chains {
		p.row(c.Number, utc(c.BeganAt), c.Host, utc(c.First), utc(c.Last), len(c.Fulls), c.Objects, c.Bytes)
	}
	for _, c := range chains {
		if c.Missing != "" {
			fmt.Fprintf(p.stdout, "generation %d lacks %s\n", c.Number, c.Missing)
		}
	}
}

// utc returns a time as text, to the millisecond; - for none.
func utc(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}

// checkTarget asks a target what it has, and returns that in words.
func checkTarget(ctx context.Context, cfg config.Config) (string, error) {
	target, err := openTarget(cfg, cfg.Backup.To)
	if err != nil {
		return "", fmt.Errorf("backup.to: %w", err)
	}
	chains, err := backups.Describe(ctx, target)
	if err != nil {
		return "", fmt.Errorf("backup.to: %w", err)
	}
	for i := len(chains) - 1; i >= 0; i-- {
		if c := chains[i]; !c.Last.IsZero() {
			return fmt.Sprintf("the settings are good; of the copies in backup.to the database can be restored as of %s", utc(c.Last)), nil
		}
	}
	return "the settings are good; backup.to answers, and has no full copy yet", nil
}

func (p *program) erasuresCommand() *cobra.Command {
	export := &cobra.Command{
		Use:   "export FILE",
		Short: "Write all erasures to a file",
		Long: "Write all erasures to a file, which has no user ids, but a keyed hash of each and the key.\n" +
			"Keep it apart from the backups, and as secret as them.",
		Args: cobra.ExactArgs(1),
		RunE: p.onApp(p.exportErasures),
	}
	apply := &cobra.Command{
		Use:   "apply FILE",
		Short: "Erase again the users whose erasures are in a file",
		Long: "Erase again those users whose erasures are in a file and whom a restored database has. Somebody who came\n" +
			"later under the same user id is somebody else and is spared. A running service removes what is stored.",
		Args: cobra.ExactArgs(1),
		RunE: p.onApp(p.applyErasures),
	}
	return p.group("erasures", "Repeat erasures of users after an older backup was restored", export, apply)
}

func (p *program) exportErasures(ctx context.Context, a *app.App, args []string) error {
	var n int64
	err := p.writeFile(args[0], func(w io.Writer) (err error) {
		n, err = a.Erasure.WriteFile(ctx, w)
		return err
	})
	if err != nil {
		return fmt.Errorf("export erasures to %s: %w", args[0], err)
	}
	fmt.Fprintf(p.stdout, "%d erasures were exported\n", n)
	return nil
}

func (p *program) applyErasures(ctx context.Context, a *app.App, args []string) error {
	n, err := p.eraseAgain(ctx, a, args[0])
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%d users are erased again\n", n)
	return nil
}

// eraseAgain erases the users whose erasures are in a file, and returns their number.
func (p *program) eraseAgain(ctx context.Context, a *app.App, path string) (n int64, err error) {
	file, err := p.files.open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if n, err = a.Erasure.ApplyFile(ctx, bufio.NewReader(file)); err != nil {
		return n, fmt.Errorf("apply the erasures of %s: %w", path, err)
	}
	return n, nil
}
