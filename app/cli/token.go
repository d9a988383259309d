package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stepboard/config"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

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
