// Package process is for tests of the harness as a process of its own: its binary, the Pod that it believes to be in, calls that it
// believes, and what it says. A harness in the test's own process is in package harness.
package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// Of every Pod here.
const (
	PodUID = "pod-uid-1"
	Token  = "secret-root-0123456789-0123456789-0123456789"
)

// Main is a TestMain: it puts the path of a harness into binary before the tests, and removes afterwards what was built, the scripted
// agent too. It does not return.
func Main(m *testing.M, binary *string) {
	dir, err := os.MkdirTemp("", "hearth-process-")
	if err != nil {
		panic(err)
	}
	*binary = filepath.Join(dir, "harness")
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", *binary, "github.com/hearthdev/hearth/cmd/harness").CombinedOutput(); err != nil {
		panic(string(out))
	}
	code := m.Run()
	agenttest.Remove()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// Pod is where harnesses boot one after the other.
type Pod struct {
	Identity wire.Identity
	Keys     challenge.Keys
	Dir      string // the journal's
}

// NewPod is a Pod that has this machine's name, as the harness looks for it.
func NewPod(t testing.TB) Pod {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	keys, err := challenge.Derive([]byte(Token), PodUID)
	require.NoError(t, err)
	return Pod{Identity: wire.Identity{Namespace: "team", PodName: name, PodUID: PodUID}, Keys: keys, Dir: t.TempDir()}
}

// Environ is the Pod's environment, and nothing of the test's; every port is a free one of 127.0.0.1.
func (p Pod) Environ() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"),
		"POD_NAMESPACE=" + p.Identity.Namespace, "POD_NAME=" + p.Identity.PodName, "POD_UID=" + p.Identity.PodUID,
		"HEARTH_DELIVERY_TOKEN=" + Token, "HEARTH_DATA_DIR=" + p.Dir,
		"HEARTH_ACP_LISTEN=127.0.0.1:0", "HEARTH_DELIVERY_LISTEN=127.0.0.1:0", "HEARTH_METRICS_LISTEN=127.0.0.1:0",
	}
}

// Sign makes a call that the Pod's harness believes, to a target at a base such as https://127.0.0.1:4100. The challenge is asked for
// without a boot. What was signed is for Ask.
func (p Pod) Sign(ctx context.Context, method, base, target, boot string, body []byte) (*http.Request, challenge.Request, error) {
	nonce, err := challenge.New(rand.Reader)
	if err != nil {
		return nil, challenge.Request{}, err
	}
	signed := challenge.Request{Method: method, Target: target, PodName: p.Identity.PodName, PodUID: p.Identity.PodUID, Challenge: nonce, Body: body}
	if target != wire.ChallengePath {
		signed.Boot = boot
	}
	r, err := http.NewRequestWithContext(ctx, method, base+target, bytes.NewReader(body))
	if err != nil {
		return nil, challenge.Request{}, err
	}
	r.Host = p.Identity.PodName
	r.Header.Set(wire.HeaderChallenge, nonce)
	r.Header.Set(wire.HeaderProof, p.Keys.Proof(signed))
	if signed.Boot != "" {
		r.Header.Set(wire.HeaderBoot, signed.Boot)
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, signed, nil
}

// Ask sends such a call, and fails unless the harness that was asked answered.
func (p Pod) Ask(through http.RoundTripper, r *http.Request, signed challenge.Request) (status int, body []byte, err error) {
	response, err := through.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	if err == nil && !p.Keys.VerifyAnswer(signed, response.StatusCode, body, response.Header.Get(wire.HeaderAnswer)) {
		err = fmt.Errorf("the answer does not verify: %d %q", response.StatusCode, body)
	}
	return response.StatusCode, body, err
}
