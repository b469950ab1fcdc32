package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// R26; SPEC.md, Trust: with the keys of every contract in the Pod's environment, a tool of real goose finds none of them: not in its
// own environment, and not in that of any process between itself and the harness. Goose as a server works with nothing but its command.
func TestNoKeyReachesTheToolsOfRealGoose(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	for name, args := range map[string][]string{"acp": {"acp"}, "serve": {"serve", "--port", port}} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			realGoose(t, p)
			p.command = append(p.command[:1], args...)
			p.env = append(p.env, "HEARTH_ACP_VIEW_KEY=secret-view-0123456789-0123456789-0123456789", "HEARTH_ACP_STEER_KEY=secret-steer-0123456789-0123456789-0123456789",
				"KONVEYOR_ACP_SECRET_KEY=secret-older-0123456789", "GOOSE_SERVER__SECRET_KEY=secret-goose-0123456789")
			b := p.ready("--permissions=Allow")
			defer func() { // a killed harness ends no server: that reads no stdin
				b.signal(syscall.SIGTERM)
				assert.Equal(t, 0, b.code(), b.log.String())
				assert.True(t, refuses(t, "127.0.0.1:"+port), "goose still serves")
			}()
			out := filepath.Join(t.TempDir(), "out")
			b.accepted("looks", fmt.Sprintf(`shell: (env; p=$$; while [ "$p" != %d ]; do tr '\0' '\n' </proc/$p/environ; p=$(sed -n 's/^PPid:.//p' /proc/$p/status); done) >%s; true`,
				b.cmd.Process.Pid, out)+"\nsay: looked", wire.StateFinished)
			e := b.attempt("looks").Envelope
			require.Equal(t, wire.OutcomeSucceeded, e.Outcome, e.Message)
			b.call(http.MethodPost, wire.RunsPath+"/looks/recorded?attempt=1", nil, nil)
			found, err := os.ReadFile(out) //nolint:gosec // a test's own file
			require.NoError(t, err)
			assert.Contains(t, string(found), "OPENAI_API_KEY=x", "it can read what is there")
			assert.Contains(t, string(found), "HEARTH_SLOT=")
			assert.NotContains(t, string(found), "secret-")
			assert.NotRegexp(t, `GOOSE_SERVER__SECRET_KEY=.*[^x\n]`, string(found))
			assert.NotContains(t, b.log.String(), "secret-")
		})
	}
}
