package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/boards/phones"
	"stepboard/services/operations/audit"
)

func (p *program) uploadAddressCommand() *cobra.Command {
	var user, board, actor string
	var c phones.Choice
	var dryRun bool
	add := ofUser(&user, &cobra.Command{
		Use:   "add",
		Short: "Make an address for a user's phone, and print its path",
		Long: "Make an address to which an app on a phone sends a user's steps, and print its path. Whoever has it can\n" +
			"upload for the user. It is shown this once.",
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			entry := models.AuditEntry{Actor: actor, Action: "upload-address add"}
			var key string
			made := func() (made models.UploadAddress, err error) {
				made, key, err = a.Phones.Add(ctx, models.UserID(user), board, c)
				return made, err
			}
			return decide(ctx, a, audit.Entry{AuditEntry: entry, User: models.UserID(user)}, false, made, func(made models.UploadAddress) {
				fmt.Fprintf(p.stdout, "%d\t/v1/in/%s\n", made.ID, key)
			})
		}),
	})
	add.Flags().StringVar(&board, "board", "steps", "the board that it uploads to")
	add.Flags().StringVar(&c.Name, "name", "phone", "its name, as the user sees it")
	add.Flags().StringVar(&c.TimeZone, "time-zone", "", "where the phone is, such as Asia/Shanghai (default the board's zone)")
	p.addActorFlag(add, &actor)
	list := ofUser(&user, &cobra.Command{
		Use:   "list",
		Short: "List the addresses of a user's phones, and when each was used last",
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			addresses, err := a.Phones.List(ctx, models.UserID(user))
			for _, address := range addresses {
				p.printAddress(address)
			}
			return err
		}),
	})
	revoke := ofUser(&user, &cobra.Command{
		Use:   "revoke ID",
		Short: "End an address for ever, as of a phone that was lost",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			entry := audit.Entry{User: models.UserID(user), AuditEntry: models.AuditEntry{Actor: actor, Action: "upload-address revoke"}}
			return decideOn(ctx, p, args[0], "upload address", entry, dryRun, func(a *app.App, id int64) (int64, error) {
				return id, a.Phones.Revoke(ctx, models.UserID(user), id, dryRun)
			}, func(id int64) { fmt.Fprintf(p.stdout, "%d\trevoked\n", id) })
		}),
	})
	revoke.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing")
	p.addActorFlag(revoke, &actor)
	return p.group("upload-address", "Make, list or revoke addresses to which phones send steps", add, list, revoke)
}

// printAddress prints an address, and what its last call has led to, as a line.
func (p *program) printAddress(a models.UploadAddress) {
	used, result := "-", "-"
	if a.LastUsedAt != nil {
		used, result = a.LastUsedAt.UTC().Format(time.RFC3339), cmp.Or(string(a.LastCode), "-")
	}
	if a.LastDay != nil {
		result = fmt.Sprintf("%s=%d", a.LastDay, *a.LastScore)
	}
	p.row(a.ID, a.Name, a.Board, a.TimeZone, used, result)
}
