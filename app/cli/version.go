package cli

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"stepboard/app"
)

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
