package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/phones"
	"stepboard/services/operations/audit"
	"stepboard/services/people/sessions"
	"stepboard/services/platform/auth"
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

func (p *program) tokenCommand() *cobra.Command {
	var (
		user, scope string
		ttl         time.Duration
	)
	cmd := &cobra.Command{
		Use:   "token --user ID",
		Short: "Print a signed token; needs auth.hs256_secret, or a data folder that was served",
		RunE: p.onSettings(nil, func(_ context.Context, cfg config.Config, _ []string) error {
			keys, err := withFolderSecret(cfg)
			if err != nil {
				return err
			}
			token, err := signToken(keys, user, scope, ttl)
			if err != nil {
				return err
			}
			fmt.Fprintln(p.stdout, token)
			return nil
		}),
	}
	cmd.Flags().StringVar(&user, "user", "", "the user's id")
	cmd.Flags().StringVar(&scope, "scope", "", "service, admin or both, separated by a space; empty for a user")
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long the token is valid")
	requireFlags(cmd, "user")
	return cmd
}

func signToken(settings config.Auth, user, scope string, ttl time.Duration) (string, error) {
	if settings.HS256Secret == "" {
		return "", errors.New("auth.hs256_secret: must be set to sign tokens; on a data folder name it by --data DIR")
	}
	id, err := models.ParseUserID(user)
	if err != nil {
		return "", fmt.Errorf("--user %q: %w", user, err)
	}
	// The verifier separates scopes by spaces only, whatever Unicode has besides.
	for _, s := range strings.FieldsFunc(scope, func(c rune) bool { return c == ' ' }) {
		if s != auth.ScopeService && s != auth.ScopeAdmin {
			return "", fmt.Errorf("--scope %q: use service, admin or both", s)
		}
	}
	// A token's times are whole seconds: a shorter one is expired at once.
	if ttl < time.Second {
		return "", fmt.Errorf("--ttl %v: must be 1s or more", ttl)
	}
	if longest := settings.MaxTokenLifetime; longest > 0 && ttl > longest {
		return "", fmt.Errorf("--ttl %v: must be at most auth.max_token_lifetime, %v", ttl, longest)
	}
	return auth.SignToken([]byte(settings.HS256Secret), id, scope, settings.Issuer, settings.Audience, time.Now(), ttl)
}

// secretName is the name of the file in a data folder with the secret that signs tokens.
const secretName = "secret"

// withFolderSecret returns the settings with the secret of the data folder, if there is one and no
// other way to check tokens is configured.
func withFolderSecret(cfg config.Config) (auth config.Auth, err error) {
	auth = cfg.Auth
	if cfg.Data.Dir != "" && auth.None() {
		auth.HS256Secret, err = folderSecret(cfg.Data.Dir)
	}
	return auth, err
}

// useFolderSecret makes the secret of the data folder, unless it is there, and lets it sign all tokens, or beside a JWKS
// those of sessions.
func useFolderSecret(o *app.Options) error {
	if err := makeSecret(o.Stores.Folder); err != nil {
		return err
	}
	secret, err := folderSecret(o.Config.Data.Dir)
	if o.Config.Auth.None() {
		o.Config.Auth.HS256Secret = secret
	} else {
		o.SessionSecret = secret
	}
	return err
}

// folderSecret reads the secret of a data folder.
func folderSecret(dir string) (string, error) {
	path := filepath.Join(dir, secretName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("data folder %s has no secret yet: serve makes it at its first start", dir)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if len(secret) < 32 {
		return "", fmt.Errorf("%s: must have at least 32 bytes", path)
	}
	return secret, nil
}

// makeSecret makes the secret of a data folder, unless it is there.
func makeSecret(folder *stores.Folder) error {
	if _, err := os.Stat(folder.Path(secretName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return folder.WriteFile(secretName, rand.Text()+rand.Text()+"\n")
}

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
