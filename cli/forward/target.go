package forward

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coder/websocket"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Target is the ACP endpoint of agent/NAME or run/NAME, looked up at each dial.
type Target struct {
	Cluster
	Access     Access
	kind, name string
	told       string // what was said of the last connection
	pod        types.UID
}

// NewTarget reads agent/NAME or run/NAME. Its Cluster is still to be set.
func NewTarget(target string, access Access) (*Target, error) {
	kind, name, _ := strings.Cut(target, "/")
	if kind != "agent" && kind != "run" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("expected agent/NAME, run/NAME or a URL such as ws://host:4000/acp, got %.64q", target)
	}
	return &Target{Access: access, kind: kind, name: name}, nil
}

// Place is the UID of the Pod that the last connection led to.
func (t *Target) Place() string { return string(t.pod) }

// Dial connects. An error that trying again cannot cure is a Final one.
func (t *Target) Dial(ctx context.Context) (*websocket.Conn, error) {
	p, err := t.find(ctx)
	if err != nil {
		return nil, t.Judge(err)
	}
	if err := t.check(ctx, p); err != nil {
		return nil, t.Judge(err)
	}
	conn, may, err := t.DialPod(ctx, p, t.Access)
	if err != nil {
		return nil, t.Judge(err)
	}
	if told := fmt.Sprintf("connected to Pod %s of Agent %s; this key may %s", p.Name, p.Agent, may); told != t.told {
		t.Say("%s", told)
		t.told = told
	}
	t.pod = p.UID
	return conn, nil
}

// DialPod connects to the ACP endpoint of a Pod, and says what the key is good for.
func (k *Cluster) DialPod(ctx context.Context, p Pod, access Access) (conn *websocket.Conn, may string, err error) {
	key, may, err := k.Key(ctx, p.Agent, access)
	if err != nil {
		return nil, "", err
	}
	conn, err = DialACP(ctx, p.URL("ws", "/acp"), key, k.Through(p))
	return conn, may, err
}

// find chooses the Pod.
func (t *Target) find(ctx context.Context) (Pod, error) {
	if t.kind == "agent" {
		return t.OfAgent(ctx, t.name)
	}
	var run hearthv1.AgentRun
	if err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.name}, &run); err != nil {
		return Pod{}, err
	}
	return OfRun(&run)
}

// check is Check, of which a run's Pod that is gone is final: an agent's next one may come.
func (t *Target) check(ctx context.Context, p Pod) error {
	err := t.Check(ctx, p)
	if t.kind == "run" && errors.Is(err, ErrGone) {
		return Final{fmt.Errorf("run/%s: its %w", t.name, err)}
	}
	return err
}
