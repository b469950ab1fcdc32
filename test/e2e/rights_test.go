//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/test/cluster"
)

// controllerUser is who the API server says the controller is.
const controllerUser = "system:serviceaccount:" + cluster.SystemNamespace + ":" + cluster.ControllerAccount

// seldom is used when the same is said twice of an object that did not change meanwhile, such as two times that a schedule missed: no case
// can wait for that.
var seldom = cluster.Right{Group: "events.k8s.io", Resource: "events", Verb: "patch"}

// rightsWereUsed compares, after all cases, what config/ grants to the controller with what it asked for since then, by the API server's
// audit log: nothing was refused to it, and it has no right that it did not use. Only the whole suite can tell; of a part it says that
// nothing was evaluated.
func rightsWereUsed(root string, since time.Time) bool {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(os.Stderr, "e2e: the controller's rights: "+format+"\n", args...)
	}
	if part := partOfSuite(); part != "" {
		say("NOT EVALUATED: only a part of the suite ran (%s)", part)
		return true
	}
	rights, err := cluster.ControllerRights(root, cluster.AdHocComponent) // which TestControllerStartsFromNothing adds
	if err != nil {
		say("FAIL: %v", err)
		return false
	}
	events, err := suite.Audited(controllerUser, since)
	switch {
	case errors.Is(err, cluster.ErrNoAudit) && os.Getenv("KUBECONFIG") != "":
		say("NOT EVALUATED: %v; it is read on the cluster of hack/cluster", err)
		return true
	case err != nil:
		say("FAIL: %v (a cluster that was started by an older hack/cluster keeps none: make cluster-down)", err)
		return false
	}
	events = slices.DeleteFunc(events, func(e cluster.AuditEvent) bool {
		return slices.ContainsFunc(suite.apart, func(s span) bool {
			return e.RequestReceivedTimestamp.After(s.from) && e.RequestReceivedTimestamp.Before(s.to)
		})
	})
	refused, unused := cluster.Refused(events), cluster.Unused(rights, events)
	for _, request := range refused {
		say("FAIL: refused: %s", request)
	}
	if i := slices.Index(unused, seldom); i >= 0 {
		say("not needed this time: %s", seldom)
		unused = slices.Delete(unused, i, i+1)
	}
	for _, right := range unused {
		say("FAIL: granted and never used: %s", right)
	}
	if len(refused)+len(unused) > 0 {
		return false
	}
	say("PASS: %d requests, none refused; each of the %d rights was used, or is said above", len(events), len(rights))
	return true
}

// partOfSuite is the flag that chose some of the cases, "" when all were to run.
func partOfSuite() string {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if chosen := flag.Lookup(name); chosen != nil && chosen.Value.String() != "" {
			return "-" + name + " " + chosen.Value.String()
		}
	}
	if os.Getenv(envRemote) != "" {
		return envRemote
	}
	return ""
}

// span is a time.
type span struct{ from, to time.Time }

// reinstalls: the test takes the installation away. What is installed is there again when it ends, and what was asked meanwhile is not
// the controller's under test.
func (r *room) reinstalls(t *testing.T) {
	from := time.Now()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, suite.Wait(ctx, "namespace "+cluster.SystemNamespace+" to be gone or in use", patiently, func(ctx context.Context) (bool, string, error) {
			var namespace corev1.Namespace
			err := suite.Client.Get(ctx, client.ObjectKey{Name: cluster.SystemNamespace}, &namespace)
			return client.IgnoreNotFound(err) == nil && namespace.DeletionTimestamp == nil, string(namespace.Status.Phase), client.IgnoreNotFound(err)
		}))
		require.NoError(t, suite.Install(ctx, suite.root, suite.digests), "the cases after this one have no controller")
		suite.apart = append(suite.apart, span{from, time.Now()})
	})
}
