package promcheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	root      = "../.."
	rules     = root + "/config/prometheus/rules.yaml"
	dashboard = root + "/config/prometheus/dashboard.json"
)

// seen is what the tests of the main module exposed (test/exposition).
func seen(t *testing.T) known {
	t.Helper()
	dir := os.Getenv("HEARTH_EXPOSITION")
	if dir == "" {
		t.Skip("HEARTH_EXPOSITION names no directory that the tests of the main module wrote to; make test does")
	}
	k, err := exposed(dir)
	require.NoError(t, err)
	return k
}

// Every alert and every panel asks for metrics, labels and states that a test run really had.
func TestExpressionsAskForWhatIsExposed(t *testing.T) {
	k := seen(t)
	groups, err := rulesOf(rules)
	require.NoError(t, err)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			assert.Empty(t, k.check(r.Expr), r.Alert)
		}
	}
	panels, variables, err := dashboardOf(dashboard)
	require.NoError(t, err)
	for _, p := range panels {
		for _, target := range p.Targets {
			assert.Empty(t, k.check(filled.Replace(target.Expr)), p.Title)
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), ([a-z]+)\)$`)
	for _, v := range variables {
		m := values.FindStringSubmatch(v)
		require.NotNil(t, m, v)
		assert.Empty(t, k.check("count by ("+m[2]+") ("+filled.Replace(m[1])+")"), v)
	}
}

// Without a test run: they parse, every alert says how bad it is and what to do, and what it links to is there.
func TestAlertsSayWhatToDo(t *testing.T) {
	groups, err := rulesOf(rules)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			assert.False(t, names[r.Alert], "%s is there twice", r.Alert)
			names[r.Alert] = true
			assert.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
			assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
			assert.Greater(t, len(r.Annotations["description"]), len(r.Annotations["summary"]), r.Alert)
			file, anchor, _ := strings.Cut(r.Annotations["runbook"], "#")
			content, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err, r.Alert)
			assert.Contains(t, anchors(string(content)), anchor, r.Alert)
		}
	}
	assert.Greater(t, len(names), 10)
	panels, _, err := dashboardOf(dashboard)
	require.NoError(t, err)
	for _, p := range panels {
		assert.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
	}
}

// anchors are those of a document's headings.
func anchors(document string) []string {
	var all []string
	drop := regexp.MustCompile(`[^a-z0-9 _-]`)
	for line := range strings.Lines(document) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			all = append(all, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-"))
		}
	}
	return all
}

func TestWhatNoSeriesHadIsFound(t *testing.T) {
	reader := expfmt.NewTextParser(model.UTF8Validation)
	families, err := reader.TextToMetricFamilies(strings.NewReader(`# TYPE a_total counter
a_total{reason="X"} 1
# TYPE b gauge
b{state="up"} 1
# TYPE h histogram
h_bucket{le="+Inf"} 1
h_sum 1
h_count 1
`))
	require.NoError(t, err)
	k := known{}
	k.learn(families, "pod")
	for expression, want := range map[string]string{
		`sum by (reason, pod) (rate(a_total{reason=~"X|Y"}[5m]))`:      "",
		`histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))`:    "",
		`b{state=~"up"} / on (pod) group_left () sum by (pod) (b) > 1`: "",
		`sum(a_totl)`:                     "a_totl: no test run exposed it",
		`h`:                               "h: no test run exposed it",
		`a_total{reasn="X"}`:              "a_total has no label reasn",
		`b{state="down"}`:                 `b never has state "down", only ["up"]`,
		`sum by (agent) (b)`:              "nothing in sum by (agent) (b) has label agent",
		`b / on (le) a_total`:             "has label le",
		`rate(a_total)`:                   "expected type range vector",
		`sum by (reason) (a_total) > (1`:  "unclosed left parenthesis",
		`b unless on (nothing) b`:         "has label nothing",
		`absent(b{component="somebody"})`: "b has no label component",
	} {
		found := k.check(expression)
		if want == "" {
			assert.Empty(t, found, expression)
			continue
		}
		require.NotEmpty(t, found, expression)
		assert.ErrorContains(t, found[0], want, expression)
	}
	_, err = exposed(t.TempDir())
	require.ErrorContains(t, err, "expected what a harness and a controller exposed")
}
