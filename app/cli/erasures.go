package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"stepboard/app"
)

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
