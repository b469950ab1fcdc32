package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	rolesManifest = `
kind: ClusterRole
metadata: {name: c}
rules:
- {apiGroups: [""], resources: [pods, pods/status], verbs: [get, create]}
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
kind: Role
metadata: {name: r, namespace: system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [one, two], verbs: [update]}
- {apiGroups: [""], resources: [secrets], verbs: [get], resourceNames: [own]}
---
kind: ClusterRole
metadata: {name: of-others}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get]}
---
kind: ClusterRoleBinding
metadata: {name: c}
roleRef: {kind: ClusterRole, name: c}
subjects: [{kind: ServiceAccount, name: me, namespace: system}]
---
kind: ClusterRoleBinding
metadata: {name: of-others}
roleRef: {kind: ClusterRole, name: of-others}
subjects: [{kind: ServiceAccount, name: me, namespace: elsewhere}]
---
kind: RoleBinding
metadata: {name: r, namespace: system}
roleRef: {kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: me, namespace: system}]
`
	me       = "system:serviceaccount:system:me"
	auditLog = `{"stage":"ResponseComplete","verb":"get","user":{"username":"` + me + `"},"objectRef":{"resource":"pods","namespace":"a"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-29T11:00:00.000000Z"}
{"stage":"ResponseComplete","verb":"get","user":{"username":"` + me + `"},"objectRef":{"resource":"secrets","namespace":"system","name":"own"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-29T13:00:00.000000Z"}
{"stage":"ResponseComplete","verb":"update","user":{"username":"` + me + `"},"objectRef":{"resource":"leases","namespace":"system","name":"one","apiGroup":"coordination.k8s.io"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-29T13:00:00.000000Z"}
{"stage":"ResponseComplete","verb":"create","user":{"username":"` + me + `"},"objectRef":{"resource":"pods","namespace":"a"},"responseStatus":{"code":403,"message":"forbidden because it is being terminated"},"requestReceivedTimestamp":"2026-11-29T13:00:00.000000Z"}
{"stage":"ResponseComplete","verb":"get","user":{"username":"` + me + `"},"objectRef":{"resource":"pods","subresource":"status","namespace":"a"},"responseStatus":{"code":403,"message":"no right"},"requestReceivedTimestamp":"2026-11-29T13:00:00.000000Z"}
{"stage":"ResponseComplete","verb":"get","user":{"username":"` + me + `"},"requestURI":"/apis","responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-29T13:00:00.000000Z"}
{"stage":"ResponseComplete","verb":"create","user":{"username":"admin"},"objectRef":{"resource":"pods","subresource":"status","namespace":"a"},"responseStatus":{"code":403},"requestReceivedTimestamp":"2026-11-29T13:00:00.000000Z"}
`
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func rightsOfMe(t *testing.T) []Right {
	t.Helper()
	objects, err := Parse([]byte(rolesManifest))
	require.NoError(t, err)
	rights, err := RightsOf(objects, "system", "me")
	require.NoError(t, err)
	return rights
}

func written(rights []Right) []string {
	var out []string
	for _, r := range rights {
		out = append(out, r.String())
	}
	return out
}

func audited(t *testing.T, log string, since time.Time) ([]AuditEvent, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "logs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "logs", "audit.log"), []byte(log), 0o600))
	return (&Cluster{Kubeconfig: filepath.Join(dir, "kubeconfig")}).Audited(me, since)
}

func TestRightsAreExpandedFromWhatIsBound(t *testing.T) {
	assert.Equal(t, []string{
		"create pods", "create pods/status", "get pods", "get pods/status", "get secrets", "get secrets own in system",
		"update leases.coordination.k8s.io one in system", "update leases.coordination.k8s.io two in system",
	}, written(rightsOfMe(t)))
	objects, err := Parse([]byte("kind: ClusterRoleBinding\nmetadata: {name: c}\nroleRef: {kind: ClusterRole, name: gone}\nsubjects: [{kind: ServiceAccount, name: me, namespace: system}]\n"))
	require.NoError(t, err)
	_, err = RightsOf(objects, "system", "me")
	require.ErrorContains(t, err, "ClusterRole gone: expected it among the manifests")
}

// What was asked before, by others, or could be asked with a narrower right, is no use of a right; what was refused is no refusal when the
// namespace was ending.
func TestUnusedAndRefusedAreReadFromTheAuditLog(t *testing.T) {
	events, err := audited(t, auditLog, noon)
	require.NoError(t, err)
	assert.Equal(t, []string{"create pods/status", "get pods", "get secrets", "update leases.coordination.k8s.io two in system"},
		written(Unused(rightsOfMe(t), events)))
	assert.Equal(t, []string{`get pods/status. in "a": no right`}, Refused(events))
	assert.Empty(t, Refused(events[:2]))
}

func TestAnAuditLogThatCannotTellIsAnError(t *testing.T) {
	_, err := audited(t, auditLog, noon.Add(-2*time.Hour))
	require.ErrorContains(t, err, "does not reach back to 2026-11-29T10:00:00Z")
	_, err = audited(t, "{\n", noon)
	require.ErrorContains(t, err, "audit.log")
	_, err = (&Cluster{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}).Audited(me, noon)
	require.ErrorIs(t, err, ErrNoAudit)
}

// The manifests that Install applies grant the controller something.
func TestTheControllersRightsAreFound(t *testing.T) {
	rights, err := ControllerRights(filepath.Join("..", ".."))
	require.NoError(t, err)
	assert.Contains(t, written(rights), "update agentruns/status.hearth.dev")
	assert.Contains(t, written(rights), "update leases.coordination.k8s.io hearth-controller in hearth-system")
}
