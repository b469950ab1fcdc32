package exposition

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	controller "github.com/hearthdev/hearth/controller/metrics"
	harness "github.com/hearthdev/hearth/runtime/metrics"
)

var update = flag.Bool("update", false, "write the tables of docs/metrics.md")

// The tables of docs/metrics.md are those of the code and of config/prometheus (go test ./test/exposition -update writes them).
func TestTheTablesInTheDocsAreThoseOfTheCode(t *testing.T) {
	const file = "../../docs/metrics.md"
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	want := put(t, put(t, string(content), "metrics", metrics()), "alerts", alerts(t))
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
	}
	assert.Equal(t, want, string(content))
}

// put replaces what is between a section's comments.
func put(t *testing.T, document, section, table string) string {
	t.Helper()
	begin, end := "<!-- "+section+" -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(document, begin)
	require.True(t, found, section)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, section)
	return before + begin + table + end + after
}

func metrics() string {
	var table strings.Builder
	table.WriteString("| metric | of | type | labels | meaning |\n| --- | --- | --- | --- | --- |\n")
	row := func(name, of, kind, help string, labels []string) {
		for i, l := range labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", name, of, kind, strings.Join(labels, ", "), strings.ReplaceAll(help, "|", `\|`))
	}
	for _, m := range controller.Table() {
		of, help := "controller", m.Help
		if m.Name == controller.BuildInfo {
			of = "both"
		}
		if m.Leader {
			help += " Only the replica that leads has it."
		}
		row(m.Name, of, string(m.Kind), help, append([]string{}, m.Labels...))
	}
	for _, m := range harness.Table {
		if m.Name != harness.BuildInfo {
			row(m.Name, "harness", string(m.Kind), m.Help, append([]string{}, m.Labels...))
		}
	}
	return table.String()
}

func alerts(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../config/prometheus/rules.yaml")
	require.NoError(t, err)
	var object struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert, For          string
					Labels, Annotations map[string]string
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(content, &object))
	var table strings.Builder
	table.WriteString("| alert | severity | after | it means | more |\n| --- | --- | --- | --- | --- |\n")
	plain := strings.NewReplacer(": {{ $value | humanizePercentage }} of them", "", ": {{ $value }}", "", "{{ $labels.", "*", " }}", "*")
	for _, g := range object.Spec.Groups {
		for _, r := range g.Rules {
			after, where := r.For, strings.TrimPrefix(r.Annotations["runbook"], "docs/")
			if after == "" {
				after = "at once"
			}
			name, _, _ := strings.Cut(filepath.Base(where), "#")
			fmt.Fprintf(&table, "| %s | %s | %s | %s | [%s](%s) |\n", r.Alert, r.Labels["severity"], after,
				plain.Replace(r.Annotations["summary"]), name, where)
		}
	}
	return table.String()
}
