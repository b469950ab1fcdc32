package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hearthdev/hearth/cli/kube"
	"github.com/hearthdev/hearth/internal/version"
)

func newVersion(env *kube.Env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(env.Out, version.Of())
			return err
		},
	}
}
