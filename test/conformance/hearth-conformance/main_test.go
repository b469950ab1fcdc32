package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/conformance"
	"github.com/hearthdev/hearth/test/harness"
)

// flags are those of a run against a harness in this process, and more.
func flags(t *testing.T, more ...string) []string {
	t.Helper()
	h := harness.Start(t, harness.Options{Scheme: wire.SchemeHTTP})
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(harness.Root+"\n"), 0o600))
	return append([]string{"--target", "http://" + h.Address, "--pod", h.Identity.PodName, "--pod-uid", h.Identity.PodUID, "--token-file", token}, more...)
}

// R57: 0 when all that should be run passed, 1 when a case was left out or failed, 2 when nothing could be said.
func TestExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		code  int
	}{
		"some cases, allowed":        {[]string{"--run", "I-3|C-5", "--allow-not-run"}, conforms},
		"some cases, not allowed":    {[]string{"--run", "I-3|C-5"}, doesNot},
		"a failed case":              {[]string{"--run", "E-1", "--namespace", "another", "--allow-not-run"}, doesNot},
		"nobody answers":             {[]string{"--target", "http://127.0.0.1:1", "--patience", "100ms"}, cannot},
		"a target without a scheme":  {[]string{"--target", "127.0.0.1:4100"}, cannot},
		"no token":                   {[]string{"--token-file", "/nonexistent"}, cannot},
		"an expression that is none": {[]string{"--run", "("}, cannot},
		"a word":                     {[]string{"word"}, cannot},
		"an unknown flag":            {[]string{"--restart", "x"}, cannot},
	} {
		t.Run(name, func(t *testing.T) {
			code, err := run(t.Context(), flags(t, c.flags...))
			assert.Equal(t, c.code, code)
			assert.Equal(t, c.code == cannot, err != nil, "%v", err)
			if err != nil {
				assert.NotContains(t, err.Error(), harness.Root)
			}
		})
	}
}

func TestTheReportIsWrittenAsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	code, err := run(context.Background(), flags(t, "--run", "E-1", "--namespace", "another", "--allow-not-run", "--json", file)) //nolint:usetesting // as main has it
	require.NoError(t, err)
	assert.Equal(t, doesNot, code)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var r conformance.Report
	require.NoError(t, json.Unmarshal(raw, &r))
	assert.Len(t, r.Results, len(conformance.Cases()))
	assert.Equal(t, 1, r.Count(conformance.Fail))
	for _, c := range r.Results {
		if c.ID == "E-1" {
			assert.Equal(t, conformance.Fail, c.Verdict)
			assert.Equal(t, `expected identity.namespace "another", got "team"`, c.Why)
		}
	}
	var table strings.Builder
	require.NoError(t, r.WriteTable(&table))
	assert.Contains(t, table.String(), "1 failed")
}
