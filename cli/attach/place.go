package attach

import (
	"context"
	"errors"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/forward"
)

// place is where one attempt of a run is carried out, or was.
type place struct {
	pod     forward.Pod
	run     string // its UID
	attempt int64  // 0 of a run that has a Pod of its own
	session string // if it is known
}

// same tells whether an attempt is where it was.
func (p place) same(q place) bool { return p.pod.UID == q.pod.UID && p.attempt == q.attempt }

func placeOf(run *hearthv1.AgentRun) (place, error) {
	pod, err := forward.OfRun(run)
	p := place{pod: pod, run: string(run.UID)}
	if d := run.Status.Delivery; d != nil {
		p.attempt, p.session = d.Attempt, d.Session
	}
	return p, err
}

// Endpoint is how the ports of Pods are reached (forward.Cluster, through the API server).
type Endpoint interface {
	// Check looks at the Pod. Its error matches forward.ErrGone or a *forward.NotRunning.
	Check(ctx context.Context, p forward.Pod) error
	// DialPod connects to the Pod's ACP endpoint, and says what the key is good for.
	DialPod(ctx context.Context, p forward.Pod, access forward.Access) (conn *websocket.Conn, may string, err error)
	// Judge makes final what trying again does not cure.
	Judge(err error) error
}

// fixed is the endpoint of one Pod: another one of its name is not meant. It is a connect.Target.
type fixed struct {
	endpoint Endpoint
	pod      forward.Pod
	access   forward.Access
}

func (p fixed) Dial(ctx context.Context) (*websocket.Conn, error) {
	err := p.endpoint.Check(ctx, p.pod)
	if over(err) {
		return nil, forward.Finally(err)
	}
	if err != nil {
		return nil, p.endpoint.Judge(err)
	}
	conn, _, err := p.endpoint.DialPod(ctx, p.pod, p.access)
	if err != nil {
		return nil, p.endpoint.Judge(err)
	}
	return conn, nil
}

// over tells whether a Pod will never be dialled again.
func over(err error) bool {
	var phase *forward.NotRunning
	return errors.Is(err, forward.ErrGone) || errors.As(err, &phase) && (phase.Phase == corev1.PodSucceeded || phase.Phase == corev1.PodFailed)
}
