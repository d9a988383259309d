package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/people/sessions"
)

// signInCode has the flags of the command sign-in-code.
type signInCode struct {
	user, group, actor string
	isNew, operator    bool
	ttl                time.Duration
}

func (p *program) signInCodeCommand() *cobra.Command {
	var c signInCode
	cmd := &cobra.Command{
		Use:   "sign-in-code [NAME]",
		Short: "Make a code by which somebody signs in, and print it",
		Long: "Make a code by which somebody signs in on the page, once, and print it. They are found by their exact name, whatever\n" +
			"its case, or by --user. With --new they are made.",
		Args: cobra.MaximumNArgs(1),
		RunE: p.onApp(func(ctx context.Context, a *app.App, args []string) error {
			if (len(args) == 1) == (c.user != "") {
				return errors.New("name somebody, or use --user")
			}
			return p.makeSignInCode(ctx, a, c, strings.Join(args, ""))
		}),
	}
	cmd.Flags().StringVar(&c.user, "user", "", "the id of the user")
	cmd.Flags().BoolVar(&c.isNew, "new", false, "make a new user with this name")
	cmd.Flags().StringVar(&c.group, "group", "", "with --new, the id of a group that they join")
	cmd.Flags().BoolVar(&c.operator, "operator", false, "make them an operator, too")
	cmd.Flags().DurationVar(&c.ttl, "ttl", sessions.DeviceCodeTTL, "how long the code is valid, at most 720h")
	p.addActorFlag(cmd, &c.actor)
	return cmd
}

// makeSignInCode makes a code of somebody by their name or id, and prints it.
func (p *program) makeSignInCode(ctx context.Context, a *app.App, c signInCode, name string) error {
	user := models.UserID(c.user)
	if !c.isNew && user == "" {
		var err error
		if user, err = p.userNamed(ctx, a, name); err != nil {
			return err
		}
	}
	entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: c.actor, Action: "sign-in-code"}, User: user}
	return decide(ctx, a, entry, false, func() (code sessions.Code, err error) {
		if c.isNew {
			var made []sessions.Code
			if made, err = a.Sessions.MakeCards(ctx, []string{name}, models.GroupID(c.group), c.ttl); err == nil {
				code = made[0]
			}
		} else {
			code, err = a.Sessions.MakeCode(ctx, user, c.ttl)
		}
		if err == nil && c.operator {
			err = a.Sessions.AddOperator(ctx, code.User, c.actor, false)
		}
		return code, err
	}, func(code sessions.Code) {
		fmt.Fprintf(p.stdout, "%s signs in as %s until %s: on the page, \"Already here? Type a code\".\n", code.Text, code.User, utc(code.Expires))
	})
}

// userNamed returns the user with exactly this name. Otherwise the error lists those who have it.
func (p *program) userNamed(ctx context.Context, a *app.App, name string) (models.UserID, error) {
	found, err := a.Sessions.Named(ctx, name)
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("nobody has the name %q", name)
	case 1:
		return found[0].User, nil
	}
	lines := []string{fmt.Sprintf("%d have the name %q; use --user with one of:", len(found), name)}
	for _, u := range found {
		seen := "never seen"
		if u.LastSeen != nil {
			seen = "last seen " + utc(*u.LastSeen)
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", u.User, seen))
	}
	return "", errors.New(strings.Join(lines, " "))
}

func (p *program) operatorsCommand() *cobra.Command {
	var actor string
	change := func(verb, short string, do func(ctx context.Context, a *app.App, user models.UserID) error) *cobra.Command {
		cmd := &cobra.Command{
			Use: verb + " USER", Short: short, Args: cobra.ExactArgs(1),
			RunE: p.onApp(func(ctx context.Context, a *app.App, args []string) error {
				user := models.UserID(args[0])
				entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: actor, Action: "operators " + verb}, User: user}
				return decide(ctx, a, entry, false, func() (models.UserID, error) { return user, do(ctx, a, user) }, func(models.UserID) {})
			}),
		}
		p.addActorFlag(cmd, &actor)
		return cmd
	}
	list := &cobra.Command{
		Use: "list", Short: "List the users who may ask for tokens of scope admin, the first one first", Args: cobra.NoArgs,
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			operators, err := a.Sessions.Operators(ctx)
			for _, o := range operators {
				p.row(o.User, o.Nickname, utc(o.CreatedAt), o.MadeBy)
			}
			return err
		}),
	}
	return p.group("operators", "Add, remove or list operators of the page and the console",
		change("add", "Make a user an operator", func(ctx context.Context, a *app.App, user models.UserID) error {
			return a.Sessions.AddOperator(ctx, user, actor, false)
		}),
		change("remove", "Make a user no operator any more", func(ctx context.Context, a *app.App, user models.UserID) error {
			return a.Sessions.RemoveOperator(ctx, user, false)
		}), list)
}

func (p *program) sessionsCommand() *cobra.Command {
	var user, actor string
	list := ofUser(&user, &cobra.Command{
		Use: "list", Short: "List the devices on which a user is signed in, and when each was used last", Args: cobra.NoArgs,
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			list, err := a.Sessions.List(ctx, models.UserID(user))
			for _, s := range list {
				p.row(s.ID, utc(s.LastUsedAt), s.Device)
			}
			return err
		}),
	})
	end := ofUser(&user, &cobra.Command{
		Use: "end ID", Short: "Sign a device out", Args: cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: actor, Action: "sessions end"}, User: models.UserID(user)}
			return decideOn(ctx, p, args[0], "session", entry, false, func(a *app.App, id int64) (int64, error) {
				return id, a.Sessions.EndOne(ctx, models.UserID(user), id)
			}, func(id int64) { fmt.Fprintf(p.stdout, "%d\tended\n", id) })
		}),
	})
	p.addActorFlag(end, &actor)
	return p.group("sessions", "List or end the sessions of a user's devices", list, end)
}
