package main

import (
	"bytes"
	"flag"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/api/shard"
)

func none(string) string { return "" }

func TestFlagsHaveUsefulDefaults(t *testing.T) {
	o, err := parse(nil, none, nil)
	require.NoError(t, err)
	assert.Equal(t, options{metrics: ":8080", probes: ":8081", webhookPort: 9443, leaderElect: true, namespace: "hearth-system", agents: shard.All()}, o)
	o, err = parse([]string{"--leader-elect=false", "--log-level=debug"}, func(string) string { return "elsewhere" }, nil)
	require.NoError(t, err)
	assert.Equal(t, "elsewhere", o.namespace)
	assert.Equal(t, slog.LevelDebug, o.level)
	assert.False(t, o.leaderElect)
	o, err = parse([]string{"--namespaces=team-a,team-b"}, none, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"team-a", "team-b"}, o.namespaces)
	o, err = parse([]string{"--allow-ad-hoc-runs"}, none, nil)
	require.NoError(t, err)
	assert.True(t, o.adHoc)
	o, err = parse([]string{"--version"}, none, nil)
	require.NoError(t, err)
	assert.True(t, o.version)
	o, err = parse([]string{"--page-bind-address=127.0.0.1:8090", "--page-hosts=Hearth.example.com"}, none, nil)
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:8090", o.page)
	assert.Equal(t, []string{"hearth.example.com"}, o.pageHosts)
	o, err = parse([]string{"--pprof-bind-address=127.0.0.1:6060"}, none, nil)
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1:6060", o.profiles)
	o, err = parse([]string{"--namespaces="}, none, nil)
	require.NoError(t, err)
	assert.Empty(t, o.namespaces, "empty means all")
	o, err = parse([]string{"--agent-selector=hearth.dev/shard in (b,a)"}, none, nil)
	require.NoError(t, err)
	assert.Equal(t, shard.Of("a", "b"), o.agents)
	o, err = parse([]string{"--agent-selector="}, none, nil)
	require.NoError(t, err)
	assert.True(t, o.agents.Everything(), "empty means all")
}

func TestBadFlagsAreNamedWithWhatIsExpected(t *testing.T) {
	for arg, says := range map[string]string{
		"--no-such":               "-no-such",
		"--webhook-port=many":     "-webhook-port",
		"--webhook-port=0":        "expected a port from 1 to 65535",
		"--webhook-port=70000":    "expected a port from 1 to 65535",
		"--log-level=loud":        "-log-level",
		"--leader-elect=perhaps":  "-leader-elect",
		"--namespaces=Team":       `-namespaces: expected names of namespaces with a comma between them, "Team" is none`,
		"--namespaces=a,":         `-namespaces: expected names of namespaces with a comma between them, "" is none`,
		"--namespaces=a, b":       `" b" is none`,
		"--namespaces=a,a":        "-namespaces: expected each namespace once, a is there twice",
		"--page-bind-address=x":   `-page-bind-address: expected host:port such as 127.0.0.1:8090, or nothing for no page; "x" is none`,
		"--page-bind-address=:p":  `":p" is none`,
		"--page-bind-address=:0":  `":0" is none`,
		"--page-hosts=a,b:80":     `-page-hosts: expected names of hosts without a port and with a comma between them, "b:80" is none`,
		"--pprof-bind-address=1":  `-pprof-bind-address: expected host:port such as 127.0.0.1:6060, or nothing for no profiles; "1" is none`,
		"--agent-selector=team=a": `-agent-selector: expected a label selector over hearth.dev/shard alone`,
		"serve":                   `unexpected argument "serve": expected flags only`,
	} {
		_, err := parse([]string{arg}, none, &bytes.Buffer{})
		require.ErrorContains(t, err, says, arg)
	}
	var usage bytes.Buffer
	_, err := parse([]string{"--agent-selector=!hearth.dev/shard", "--leader-elect=false"}, none, nil)
	require.ErrorContains(t, err, "--agent-selector: expected --leader-elect beside it")
	_, err = parse([]string{"-h"}, none, &usage)
	require.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, usage.String(), "-health-probe-bind-address")
}
