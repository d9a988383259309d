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
		Short: "Run everything in one process, in memory, with simulated people",
		RunE: p.run(func(ctx context.Context, _ []string) error {
			log := p.newLogger(config.Log{Level: "warn", Format: "text"})
			return demo.Run(ctx, o, p.stdout, log, p.progressLine())
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Addr, "addr", config.Default().HTTP.Addr, "address to listen on")
	flags.IntVar(&o.Users, "users", 2000, "number of people, unless --graph is given")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the generated people, friendships and steps")
	flags.StringVar(&o.Graph, "graph", "", "read friendships from this file: two user numbers a line, from 0")
	flags.StringVar(&o.Steps, "steps", "", "read steps from this file: Id,ActivityHour,StepTotal; its users become walking patterns that people follow in turn")
	return cmd
}
