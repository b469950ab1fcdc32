package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/hearthdev/hearth/cli/kube"
)

var update = flag.Bool("update", false, "write the commands into docs/cli.md")

const (
	page  = "../docs/cli.md"
	begin = "<!-- The rest is written by `go test ./cli -run Documented -update`. -->\n"
)

// R55: docs/cli.md has every command with every flag, as the program has them. Its head is written by hand.
func TestTheCommandsAreDocumented(t *testing.T) {
	old, err := os.ReadFile(page)
	require.NoError(t, err)
	head, _, ok := strings.Cut(string(old), begin)
	require.True(t, ok, "docs/cli.md has lost its mark")
	var b strings.Builder
	b.WriteString(head + begin)
	document(&b, NewCommand(kube.New("hearth", genericiooptions.NewTestIOStreamsDiscard())))
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(b.String()), 0o600))
		return
	}
	assert.Equal(t, b.String(), string(old), "run it with -update")
}

func document(b *strings.Builder, root *cobra.Command) {
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "completion" || c.Name() == "help" {
			continue
		}
		fmt.Fprintf(b, "\n## hearth %s\n\n```text\nhearth %s\n```\n\n%s\n", c.Name(), c.Use, paragraph(c))
		rows := ""
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name = "`-" + f.Shorthand + "`, " + name
			}
			usage := strings.ReplaceAll(f.Usage, "|", "\\|")
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0s" {
				usage += " (default " + f.DefValue + ")"
			}
			rows += "| " + name + " | " + usage + " |\n"
		})
		if rows != "" {
			fmt.Fprintf(b, "\n| flag | |\n| --- | --- |\n%s", rows)
		}
		if c.Example != "" {
			fmt.Fprintf(b, "\n<!-- not run: test/cli and others run the command with names of their own -->\n```sh\n%s\n```\n", unindented(c.Example))
		}
	}
}

// paragraph is what the program says of a command. What is set in columns stays so.
func paragraph(c *cobra.Command) string {
	if c.Long == "" {
		return c.Short + "."
	}
	if strings.Contains(c.Long, "\n  ") {
		return "```text\n" + c.Long + "\n```"
	}
	return c.Long
}

func unindented(example string) string {
	lines := strings.Split(strings.Trim(example, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}
