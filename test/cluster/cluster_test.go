package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestReadPutsInInstallOrder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	objects, err := Read(
		write("hooks.yaml", "kind: ValidatingWebhookConfiguration\nmetadata: {name: hooks}\n---\nkind: Deployment\nmetadata: {name: deployment}\n"),
		write("base.yaml", "# only a comment\n---\nkind: Service\nmetadata: {name: service}\n---\nkind: Namespace\nmetadata: {name: room}\n"),
		write("crd.yaml", "kind: CustomResourceDefinition\nmetadata: {name: kinds}\n"))
	require.NoError(t, err)
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
	}
	assert.Equal(t, []string{"Namespace", "CustomResourceDefinition", "Service", "Deployment", "ValidatingWebhookConfiguration"}, kinds)

	_, err = Read(write("bad.yaml", "kind: Pod\n"))
	require.ErrorContains(t, err, "bad.yaml: document 1: expected kind and metadata.name")
}

func TestParseNamesTheBadDocument(t *testing.T) {
	_, err := Parse([]byte("kind: Pod\nmetadata: {name: p}\n---\nkind: Pod\n"))
	require.EqualError(t, err, "document 2: expected kind and metadata.name")
}

// What Install applies is what `kubectl apply -k config` would: no samples.
func TestInstallReadsWhatTheKustomizationNames(t *testing.T) {
	files, err := resources(filepath.Join("..", "..", "config"))
	require.NoError(t, err)
	objects, err := Read(files...)
	require.NoError(t, err)
	kinds := map[string]int{}
	for _, object := range objects {
		kinds[object.GetKind()]++
	}
	assert.Equal(t, "Namespace", objects[0].GetKind())
	assert.Equal(t, 2, kinds["CustomResourceDefinition"])
	assert.Equal(t, 1, kinds["Deployment"])
	assert.Zero(t, kinds["Agent"]+kinds["AgentRun"])
}

func TestModelManifestParses(t *testing.T) {
	objects, err := Parse(modelManifest)
	require.NoError(t, err)
	assert.Len(t, objects, 2)
}

func TestDigests(t *testing.T) {
	found, err := digests([]string{"controller", "llm"}, "localhost/c:dev sha256:1 /c.tar\nlocalhost/l:dev sha256:2 /l.tar\n")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"controller": "sha256:1", "llm": "sha256:2"}, found)
	_, err = digests([]string{"controller"}, "")
	require.Error(t, err)
}

func TestWait(t *testing.T) {
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		look  func(n int) (bool, string, error)
		limit time.Duration
		want  string
	}{
		"ends when it is done":        {func(n int) (bool, string, error) { return n == 2, "there", nil }, time.Minute, ""},
		"looks again after an error":  {func(n int) (bool, string, error) { return n == 2, "", map[bool]error{true: refused}[n < 2] }, time.Minute, ""},
		"says the last state":         {func(int) (bool, string, error) { return false, "no IP yet", nil }, time.Millisecond, "no IP yet"},
		"says the last error":         {func(int) (bool, string, error) { return false, "", refused }, time.Millisecond, "connection refused"},
		"ends at once at a final one": {func(int) (bool, string, error) { return false, "", Stop(refused) }, time.Hour, "waiting for it: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			looks := 0
			err := (&Cluster{Progress: &said}).Wait(t.Context(), "it", c.limit, func(context.Context) (bool, string, error) {
				looks++
				return c.look(looks)
			})
			if c.want == "" {
				require.NoError(t, err)
				assert.Contains(t, said.String(), "it: ")
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestWaitKeepsTheStateThatTheLimitInterrupted(t *testing.T) {
	err := (&Cluster{Progress: &bytes.Buffer{}}).Wait(t.Context(), "it", time.Second, func(ctx context.Context) (bool, string, error) {
		select {
		case <-ctx.Done():
			return false, "", ctx.Err()
		default:
			return false, "no IP yet", nil
		}
	})
	require.ErrorContains(t, err, "last: no IP yet")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestPodStateHasKubeletsWords(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{
		Phase: corev1.PodPending,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "agent", RestartCount: 2,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
		}},
	}}
	assert.Equal(t, "Pending; agent ImagePullBackOff: no such image; agent restarted 2 times", podState(pod))
}
