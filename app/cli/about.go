package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"stepboard/app"
	"stepboard/config"
	"stepboard/handlers"
)

func (p *program) configCommand() *cobra.Command {
	var connect bool
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the settings as serve would",
		RunE: p.onSettings((*config.Config).RequireServe, func(ctx context.Context, cfg config.Config, _ []string) error {
			log := p.newLogger(cfg.Log)
			if _, err := app.NewTLS(cfg, log); err != nil { //nolint:contextcheck // connections have contexts of their own
				return err
			}
			found := "the settings are good"
			if connect {
				var err error
				if found, err = checkServers(ctx, cfg, log); err != nil {
					return err
				}
			}
			for _, warning := range cfg.Warnings() {
				fmt.Fprintln(p.stdout, "warning: "+warning)
			}
			fmt.Fprintln(p.stdout, found)
			return nil
		}),
	}
	check.Flags().BoolVar(&connect, "connect", false, "also check the servers that the settings name: that they answer, their versions and rights; backup.to: that it can be listed; and wechat.apps: that WeChat knows their secrets")
	show := &cobra.Command{
		Use:   "print",
		Short: "Print the effective settings, with secrets hidden",
		RunE: p.onSettings(nil, func(_ context.Context, cfg config.Config, _ []string) error {
			return yaml.NewEncoder(p.stdout).Encode(cfg.Printable())
		}),
	}
	return p.group("config", "Check or print the settings", check, show)
}

// checkServers asks what the settings name, and returns in words what it has found.
func checkServers(ctx context.Context, cfg config.Config, log *slog.Logger) (string, error) {
	if err := app.CheckWeChat(ctx, cfg.WeChat); err != nil {
		return "", err
	}
	switch {
	case cfg.Backup.To != "":
		return checkTarget(ctx, cfg)
	case cfg.Data.Dir != "":
		return "the settings are good, and name no servers", nil
	}
	return "the settings and the servers are good", app.CheckServers(ctx, cfg, log)
}

func (p *program) openAPICommand() *cobra.Command {
	return &cobra.Command{
		Use:   "openapi",
		Short: "Print the description of the API, for generators of clients",
		RunE: p.run(func(context.Context, []string) error {
			document, err := handlers.OpenAPI(app.Version())
			if err != nil {
				return err
			}
			var indented bytes.Buffer
			if err := json.Indent(&indented, document, "", "  "); err != nil {
				return err
			}
			indented.WriteByte('\n')
			_, err = indented.WriteTo(p.stdout)
			return err
		}),
	}
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		RunE: p.run(func(context.Context, []string) error {
			fmt.Fprintln(p.stdout, versionText())
			return nil
		}),
	}
}

// versionText returns the version, commit and Go version of this program.
func versionText() string {
	commit := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	return fmt.Sprintf("stepboard %s, commit %s, %s", app.Version(), commit, runtime.Version())
}
