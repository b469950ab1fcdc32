package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/llm"
)

// The whole harness with real goose and a scripted model, without a cluster. HEARTH_GOOSE is the path of goose's binary.
func TestAHarnessCarriesOutGoalsWithRealGoose(t *testing.T) {
	path := os.Getenv("HEARTH_GOOSE")
	if path == "" {
		require.NotEqual(t, "1", os.Getenv("HEARTH_REQUIRE_REAL"), "HEARTH_GOOSE is not set: it is the path of a goose binary, see hack/goose/install.sh")
		t.Skip("HEARTH_GOOSE is not set")
	}
	model := httptest.NewServer(llm.New(llm.Options{Second: 20 * time.Millisecond}))
	t.Cleanup(func() { model.CloseClientConnections(); model.Close() })
	link := filepath.Join(t.TempDir(), "goose")
	require.NoError(t, os.Symlink(path, link))
	p := newPlace(t)
	p.command = []string{link, "acp"}
	p.env = []string{
		"GOOSE_PROVIDER=openai", "GOOSE_MODEL=test-model", "OPENAI_API_KEY=x", "OPENAI_HOST=" + model.URL,
		"GOOSE_DISABLE_KEYRING=1", "GOOSE_TELEMETRY_OFF=1", "GOOSE_DISABLE_SESSION_NAMING=true",
	}
	b := p.ready("--permissions=Allow", "--concurrency=2", "--queue=4")
	assert.Equal(t, "goose", b.boot.Agent.Name)
	marker := filepath.Join(t.TempDir(), "marker")
	b.accepted("says", "say: hello from goose", wire.StateFinished)
	b.accepted("shell", "shell: echo done > "+marker, wire.StateFinished)
	b.accepted("fails", "fail: 400", wire.StateFinished)
	assert.Equal(t, "hello from goose", b.attempt("says").Envelope.Output.Value)
	assert.Equal(t, wire.OutcomeSucceeded, b.attempt("shell").Envelope.Outcome, b.attempt("shell").Envelope.Message)
	assert.FileExists(t, marker)
	assert.Equal(t, wire.OutcomeFailed, b.attempt("fails").Envelope.Outcome, "a provider's failure that arrives as end_turn is none of success")

	b.accepted("hangs", "slow: 1000", wire.StateRunning)
	b.kill()
	b = p.ready("--permissions=Allow")
	assert.Equal(t, wire.OutcomeInterrupted, b.attempt("hangs").Envelope.Outcome, "row 16")
	assert.Equal(t, "hello from goose", b.attempt("says").Envelope.Output.Value, "row 17")
}
