package cli

import (
	"context"

	"github.com/spf13/cobra"

	"stepboard/app/demo"
	"stepboard/config"
)

func (p *program) demoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Try it out: everything in one process, with generated people who walk",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			log := newLogger(p.stderr, config.Log{Level: "warn", Format: "text"})
			return demo.Run(ctx, o, p.stdout, log, progressOn(p.stderr))
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Addr, "addr", config.Default().HTTP.Addr, "address to listen on")
	flags.IntVar(&o.Users, "users", 2000, "how many people there are, where no graph says it")
	flags.Uint64Var(&o.Seed, "seed", 1, "the same seed makes the same people, friendships and steps")
	flags.StringVar(&o.Graph, "graph", "", "take the friendships from this file: two user numbers a line, from 0")
	flags.StringVar(&o.Steps, "steps", "", "take the steps from this file: Id,ActivityHour,StepTotal; its people are dealt out to the users in turn")
	return cmd
}
