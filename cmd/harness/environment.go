package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/delivery/kontext"
	"github.com/hearthdev/hearth/runtime/dial"
	"github.com/hearthdev/hearth/runtime/process"
)

const (
	prefix   = "HEARTH_"
	envToken = "HEARTH_DELIVERY_TOKEN"
	envView  = "HEARTH_ACP_VIEW_KEY"
	envSteer = "HEARTH_ACP_STEER_KEY"
	// envOlderSteer is what images of an older platform get; it opens what envSteer opens.
	envOlderSteer = "KONVEYOR_ACP_SECRET_KEY"
)

// secrets are the variables of every contract that the agent must not inherit (SPEC.md, Harness).
var secrets = []string{
	envToken, envView, envSteer, kontext.TokenVariable, envOlderSteer, dial.KeyVariable,
	"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
}

// exporters begin the variables that say where the harness exports traces to, and with what credentials. An agent that knows them too,
// and there are such, would export goals there by itself.
const exporters = "OTEL_EXPORTER_"

// serviceLink is what Kubernetes adds for a Service whose name begins with hearth.
var serviceLink = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^HEARTH_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
})

// kinds are the words for what flags hold.
var kinds = map[string]string{"int": "whole number", "int64": "whole number", "duration": "duration such as 90s", "string": "text"}

// variable is the environment's name of a flag.
func variable(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that were not given, and refuses HEARTH_ variables that mean nothing: a misspelt one would
// otherwise be a default that nobody chose.
func fromEnvironment(fs *pflag.FlagSet, environ []string) error {
	flags := map[string]*pflag.Flag{}
	known := append([]string{process.MarkerName}, secrets...) // a harness that an agent starts finds the agent's marker
	fs.VisitAll(func(f *pflag.Flag) {
		flags[variable(f.Name)] = f
		known = append(known, variable(f.Name))
	})
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		f := flags[name]
		switch {
		case f != nil && !f.Changed:
			if err := fs.Set(f.Name, value); err != nil {
				return fmt.Errorf("%s: expected a %s, got %.64q", name, kinds[f.Value.Type()], value)
			}
		case f == nil && !slices.Contains(known, name) && !serviceLink().MatchString(name):
			return fmt.Errorf("%.64s: harness %s has no such variable; the nearest is %s", name, fs.Name(), nearest(name, known))
		}
	}
	return nil
}

func nearest(name string, known []string) string {
	return slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
}

// distance is the number of letters to insert, remove or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// scrub returns the environment that agents get, without secrets and without the harness's own settings, and removes the
// secrets from this process's too.
func scrub(environ []string) ([]string, error) {
	for _, name := range secrets {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("remove %s from the environment: %w", name, err)
		}
	}
	return slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(secrets, name) || strings.HasPrefix(name, exporters) || strings.HasPrefix(name, prefix) && !serviceLink().MatchString(name)
	}), nil
}
