// Command hearth is for people who work with agents that Hearth keeps.
//
//	hearth connect agent/NAME
//	hearth version
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hearthdev/hearth/cli/connect"
	"github.com/hearthdev/hearth/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hearth:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "hearth", Short: "watch and steer the agents that Hearth keeps",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(connect.NewCommand(), &cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), version.Of())
			return err
		},
	})
	return root
}
