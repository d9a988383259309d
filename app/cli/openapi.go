package cli

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/handlers"
)

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
