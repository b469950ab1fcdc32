package rig

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/faults/apifault"
	"github.com/hearthdev/hearth/test/faults/history"
	"github.com/hearthdev/hearth/test/faults/invariant"
)

// Options of a World; the zero value is right for most tests.
type Options struct {
	// KeepLease leaves the lease of a killed controller to run out by itself, after 15 seconds.
	KeepLease bool
	// Env is added to the environment of the controllers.
	Env []string
}

// World is a namespace with its own controllers and node.
type World struct {
	Namespace string
	// Admin may do everything; what it writes passes admission. User is somebody with all rights on Agents and AgentRuns.
	Admin, User client.Client
	// Config is the administrator's, for clients of other kinds.
	Config *rest.Config
	// API stands between the controllers and the API server.
	API *apifault.API

	t          testing.TB
	options    Options
	ctx        context.Context // ends with the test
	built      binaries
	dir        string // short: sockets are in it
	effects    string // what the scripted agents started
	ends       string // and what of it they ended
	history    *history.Watcher
	kubeconfig string
	node       *node
	points     holds // of the controllers

	mu          sync.Mutex
	started     int // controllers
	controllers []*Controller
	tokens      map[string]types.UID // the run that was created with a token in its goal
	numbered    int
	allowed     []invariant.Violation
	before      map[string]invariant.Sample // of processes, by name

	confidential map[string]string // what Secrets held, by name and key
}

// New makes a World. When the test ends, everything that it started is ended, and the invariants are checked.
func New(t testing.TB, o Options) *World {
	t.Helper()
	built, err := builds()
	require.NoError(t, err)
	shared.start(t)
	w := &World{t: t, options: o, built: built, Config: server.Admin(t), Admin: server.Client(t), tokens: map[string]types.UID{}, before: map[string]invariant.Sample{}, confidential: map[string]string{}}
	w.Namespace = server.Namespace(t)
	w.User = server.ClientAsGroup(t, "someone", "system:masters")
	w.dir, err = os.MkdirTemp("", "rig-") //nolint:usetesting // the path of a socket must be short
	require.NoError(t, err)
	w.effects, w.ends = filepath.Join(w.dir, "effects"), filepath.Join(w.dir, "ends")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w.ctx = ctx
	t.Cleanup(cancel)
	w.grant()
	w.API, err = apifault.New(server.Controller(t))
	require.NoError(t, err)
	w.kubeconfig, err = w.API.Kubeconfig(w.dir)
	require.NoError(t, err)
	w.history, err = history.Watch(ctx, w.Config, w.Namespace)
	require.NoError(t, err)
	w.node = newNode(w)
	t.Cleanup(func() {
		w.finish()
		w.history.Stop()
		cancel()
		w.end()
	})
	return w
}

// grant gives the controllers what config/namespaced gives them in this namespace.
func (w *World) grant() {
	w.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: leaseName}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{leaseName}, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
	}}
	require.NoError(w.t, w.Admin.Create(w.ctx, role))
	require.NoError(w.t, w.Admin.Create(w.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: leaseName}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: leaseName},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "hearth-system", Name: "hearth-controller"}}}))
}

// end ends all processes, and says what they said if the test failed.
func (w *World) end() {
	w.mu.Lock()
	controllers := slices.Clone(w.controllers)
	w.mu.Unlock()
	for _, c := range controllers {
		c.process.kill()
	}
	w.node.stop()
	w.API.Close()
	if w.t.Failed() {
		w.tell(controllers)
	}
	_ = os.RemoveAll(w.dir)
}

// tell logs what helps to understand a failure.
func (w *World) tell(controllers []*Controller) {
	for i, c := range controllers {
		w.t.Logf("controller %d:\n%s", i+1, tail(c.Log()))
	}
	for _, p := range w.node.all() {
		w.t.Logf("harness of Pod %s (%s):\n%s", p.Name, p.UID, tail(p.Log()))
	}
	for _, e := range w.Effects() {
		w.t.Logf("effect: %+v", e)
	}
}

const tailBytes = 16 << 10

// noise is what a controller says at every start, and that its webhook certificate is missing, which the rig wants.
var noise = regexp.MustCompile(`(?m)^.*("Starting |"logger":"certs"|webhook).*\n`)

func tail(text string) string {
	text = noise.ReplaceAllString(text, "")
	if len(text) > tailBytes {
		return "...\n" + text[len(text)-tailBytes:]
	}
	return text
}

// Pods are those that exist, of an Agent or, with "", of all, oldest first.
func (w *World) Pods(agent string) []*Pod {
	return slices.DeleteFunc(w.node.all(), func(p *Pod) bool { return p.Gone() || agent != "" && p.agent() != agent })
}

func sortedPods(pods map[types.UID]*Pod) []*Pod {
	return slices.SortedFunc(maps.Values(pods), func(a, b *Pod) int { return a.order - b.order })
}

// secrets are the values of all Secrets of the namespace, by name and key: those that there are, and those of the Pods that were ready
// once, which may be gone by now and are no less secret.
func (w *World) secrets() (map[string]string, error) {
	var list corev1.SecretList
	if err := w.Admin.List(w.ctx, &list, client.InNamespace(w.Namespace)); err != nil {
		return nil, fmt.Errorf("read the Secrets: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range list.Items {
		for key, value := range s.Data {
			if len(value) > 0 { // no goal is no secret
				w.confidential[fmt.Sprintf("%s/%s (%s)", s.Name, key, s.UID)] = string(value)
			}
		}
	}
	return maps.Clone(w.confidential), nil
}
