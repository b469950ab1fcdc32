// Package promcheck holds the alerts and the dashboard of config/prometheus against Prometheus' own parser and against what the metrics
// really looked like while tests ran. Its own module, because Prometheus brings a large graph.
package promcheck

import (
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// target are the labels that scraping adds, by config/prometheus/monitors.yaml.
var target = []string{"job", "instance", "namespace", "pod", "container", "endpoint"}

// closed are the labels whose every value is there from the start, so that an unknown one is a mistake.
var closed = []string{"state", "component"}

// metric is what is known of one: the labels of its series, with the values that were seen.
type metric map[string][]string

// known is every name that may be selected.
type known map[string]metric

// learn takes over what was exposed, and the labels that scraping adds to it.
func (k known) learn(families map[string]*dto.MetricFamily, added ...string) {
	for name, family := range families {
		names := []string{name}
		if family.GetType() == dto.MetricType_HISTOGRAM {
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		}
		for _, name := range names {
			m := k.at(name)
			for _, series := range family.GetMetric() {
				for _, l := range series.GetLabel() {
					m.add(l.GetName(), l.GetValue())
				}
			}
			if strings.HasSuffix(name, "_bucket") {
				m.add("le", "")
			}
			for _, l := range added {
				m.add(l, "")
			}
		}
	}
}

func (k known) at(name string) metric {
	if k[name] == nil {
		k[name] = metric{}
	}
	return k[name]
}

func (m metric) add(label, value string) {
	if !slices.Contains(m[label], value) {
		m[label] = append(m[label], value)
	}
}

// check parses an expression, and says what in it no series ever had.
func (k known) check(expression string) []error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return []error{err}
	}
	return k.walk(parsed)
}

func (k known) walk(root parser.Expr) []error {
	var found []error
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			found = append(found, k.selector(n)...)
		case *parser.AggregateExpr:
			found = append(found, k.grouping(n, n.Grouping)...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				found = append(found, k.grouping(n, append(slices.Clone(n.VectorMatching.MatchingLabels), n.VectorMatching.Include...))...)
			}
		}
		return nil
	})
	return found
}

func (k known) selector(s *parser.VectorSelector) []error {
	m, ok := k[s.Name]
	if !ok {
		return []error{fmt.Errorf("%s: no test run exposed it", s.Name)}
	}
	var found []error
	for _, matcher := range s.LabelMatchers {
		values, ok := m[matcher.Name]
		switch {
		case matcher.Name == labels.MetricName:
		case !ok:
			found = append(found, fmt.Errorf("%s has no label %s", s.Name, matcher.Name))
		case slices.Contains(closed, matcher.Name):
			for wanted := range strings.SplitSeq(matcher.Value, "|") {
				if !slices.Contains(values, wanted) {
					found = append(found, fmt.Errorf("%s never has %s %q, only %q", s.Name, matcher.Name, wanted, values))
				}
			}
		}
	}
	return found
}

// grouping checks the labels by which a part is put together: one of its series must have each.
func (k known) grouping(part parser.Expr, by []string) []error {
	var found []error
	for _, label := range by {
		has := false
		parser.Inspect(part, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok {
				_, known := k[s.Name][label]
				has = has || known
			}
			return nil
		})
		if !has {
			found = append(found, fmt.Errorf("nothing in %s has label %s", part, label))
		}
	}
	return found
}
