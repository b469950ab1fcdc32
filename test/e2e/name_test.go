//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	// nameLimit is R10's: how long after ACPReady the name of the run's Service may take to answer.
	nameLimit = 10 * time.Second
	nameEvery = 100 * time.Millisecond
)

// serviceName is the name of a run's headless Service, as Pods ask for it.
func serviceName(pod *corev1.Pod) string {
	return pod.Name + "." + pod.Namespace + ".svc.cluster.local"
}

// nameIsSilent: a Service does not publish the address of a Pod that is not Ready.
func (r *room) nameIsSilent(pod *corev1.Pod) {
	r.t.Helper()
	addresses, err := r.lookup(r.t.Context(), pod)
	var unknown *net.DNSError
	if err != nil && (!errors.As(err, &unknown) || !unknown.IsNotFound) {
		r.t.Fatalf("the cluster's DNS does not answer: %v", err)
	}
	assert.Empty(r.t, addresses, "%s resolves while 4000 is closed", serviceName(pod))
}

// nameAnswers also looks at the Service of a Pod-backed run.
func (r *room) nameAnswers(pod *corev1.Pod, since time.Time) {
	r.t.Helper()
	r.nameLeadsTo(pod, since)
	var service corev1.Service
	require.NoError(r.t, suite.Client.Get(r.t.Context(), r.key(pod.Name), &service))
	assert.Equal(r.t, corev1.ClusterIPNone, service.Spec.ClusterIP)
	assert.False(r.t, service.Spec.PublishNotReadyAddresses)
	require.Len(r.t, service.Spec.Ports, 1)
	assert.Equal(r.t, hearthv1.PortACP, service.Spec.Ports[0].Name)
	assert.EqualValues(r.t, hearthv1.PortACPNumber, service.Spec.Ports[0].Port)
}

// nameLeadsTo the agent, and to nobody else, within ten seconds of ACPReady.
func (r *room) nameLeadsTo(pod *corev1.Pod, since time.Time) {
	r.t.Helper()
	ctx, cancel := context.WithDeadline(r.t.Context(), since.Add(nameLimit))
	defer cancel()
	var addresses []string
	err := errors.New("not asked")
	for err != nil || len(addresses) == 0 {
		addresses, err = r.lookup(ctx, pod)
		select {
		case <-ctx.Done():
			require.Fail(r.t, "the name of the run's Service does not answer", "%s within %s of ACPReady: %v", serviceName(pod), nameLimit, err)
		case <-time.After(nameEvery):
		}
	}
	took := time.Since(since)
	require.Equal(r.t, []string{pod.Status.PodIP}, addresses)
	require.NoError(r.t, r.dial(ctx, pod, net.JoinHostPort(addresses[0], "4000")), "what the name resolves to is dialled")
	r.t.Logf("%s answered %s after ACPReady", serviceName(pod), took.Round(time.Millisecond))
}

// lookup asks the DNS server that the Pod asks, from this machine; when the node is another one the Pod asks itself.
func (r *room) lookup(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	if len(podProcesses(pod)) == 0 {
		return r.lookupInside(ctx, pod)
	}
	server := ""
	for line := range strings.Lines(r.sh(ctx, pod, "cat /etc/resolv.conf")) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "nameserver" && server == "" {
			server = net.JoinHostPort(words[1], "53")
		}
	}
	if server == "" {
		return nil, errors.New("the Pod has no nameserver")
	}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, network, server)
	}}
	return resolver.LookupHost(ctx, serviceName(pod)+".")
}

// lookupInside reads the addresses of busybox's nslookup, which come after the name.
func (r *room) lookupInside(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	out, err := suite.Exec(ctx, client.ObjectKeyFromObject(pod), hearthv1.AgentContainer, "nslookup", "-type=a", serviceName(pod)+".")
	if strings.Contains(out, "NXDOMAIN") {
		return nil, &net.DNSError{Err: "no such host", Name: serviceName(pod), IsNotFound: true}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	_, answer, _ := strings.Cut(out, "Name:")
	var addresses []string
	for line := range strings.Lines(answer) {
		if address, ok := strings.CutPrefix(line, "Address: "); ok {
			addresses = append(addresses, strings.TrimSpace(address))
		}
	}
	return addresses, nil
}

// TestSomebodysService: a Service of somebody's own under the run's name is not used. The run says that it is in the way, and goes on
// when it was deleted.
func TestSomebodysService(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "squatter")
	const name = reviewer + "-1"
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.namespace},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 1}}},
	}
	require.NoError(t, suite.Client.Create(t.Context(), theirs))
	r.agent(reviewer, nil)
	blocked := r.await(name, "to say what is in the way", shortly, func(run *hearthv1.AgentRun) bool {
		return strings.Contains(succeeded(run).Message, "Service "+name+" exists and is not this run's")
	})
	assert.Equal(t, hearthv1.ReasonPodNotRunning, succeeded(blocked).Reason)
	require.NoError(t, suite.Client.Delete(t.Context(), theirs))
	r.waitReady(reviewer)
	r.succeeds("after", reviewer)
}
