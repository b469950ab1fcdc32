package promcheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// rulesOf reads the groups of a PrometheusRule, as Prometheus reads a file of rules.
func rulesOf(file string) (*rulefmt.RuleGroups, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the project's own
	if err != nil {
		return nil, err
	}
	var object struct {
		Spec yaml.Node `yaml:"spec"`
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var spec bytes.Buffer
	if err := yaml.NewEncoder(&spec).Encode(&object.Spec); err != nil {
		return nil, err
	}
	groups, errs := rulefmt.Parse(spec.Bytes(), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	return groups, errors.Join(errs...)
}

// panel is one of a dashboard, with what it shows.
type panel struct {
	Title, Type string
	Targets     []struct{ Expr string }
}

// dashboardOf reads the panels of a dashboard, and the queries of its variables.
func dashboardOf(file string) ([]panel, []string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the project's own
	if err != nil {
		return nil, nil, err
	}
	var d struct {
		Panels     []panel
		Templating struct {
			List []struct {
				Type  string
				Query json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(content, &d); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	var queries []string
	for _, v := range d.Templating.List {
		var q struct{ Query string }
		if v.Type == "query" {
			if err := json.Unmarshal(v.Query, &q); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", file, err)
			}
			queries = append(queries, q.Query)
		}
	}
	return d.Panels, queries, nil
}

// filled is an expression of a dashboard as Grafana sends it: with its variables replaced, one way or the other.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$agent", ".*")

// exposed reads what tests left: a file for each process, what harnesses served in harness….prom, the rest of controllers.
func exposed(dir string) (known, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.prom"))
	if err != nil {
		return nil, err
	}
	k, kinds := known{}, map[bool]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // a test wrote it
		if err != nil {
			return nil, err
		}
		reader := expfmt.NewTextParser(model.UTF8Validation)
		families, err := reader.TextToMetricFamilies(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		harness := strings.HasPrefix(filepath.Base(file), "harness")
		kinds[harness] = true
		added := target
		if harness {
			added = append([]string{"agent"}, target...)
		}
		k.learn(families, added...)
	}
	if !kinds[true] || !kinds[false] {
		return nil, fmt.Errorf("%s: expected what a harness and a controller exposed, there are %q", dir, files)
	}
	for _, label := range target { // Prometheus makes this one itself
		k.at("up").add(label, "")
	}
	return k, nil
}
