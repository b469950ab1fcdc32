package conformance

import (
	"context"
	"net/http"
	"time"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func identityCases() []Case {
	return []Case{
		{ID: "I-1", Title: "a harness without POD_NAMESPACE, POD_NAME or POD_UID does not start", needs: starts, run: func(t *trial) {
			t.refusesToStart(map[string]string{"POD_NAMESPACE": ""}, map[string]string{"POD_NAME": ""}, map[string]string{"POD_UID": ""})
		}},
		{ID: "I-2", Title: "a harness whose hostname is not its Pod's does not start", needs: starts, run: func(t *trial) {
			t.refusesToStart(map[string]string{"POD_NAME": "another-pod"}, map[string]string{"POD_NAME": t.kit.Identity.PodName + "x"})
		}},
		{ID: "I-3", Title: "Host is the Pod's name, with or without a port", run: func(t *trial) {
			for _, port := range []string{"", ":4100", ":1"} {
				c := t.challenge()
				c.host += port
				t.want(t.send(c), http.StatusOK, "")
			}
		}},
		{ID: "I-4", Title: "another Host gets 421, nothing journalled", run: otherHost},
		{ID: "I-5", Title: "another target name or UID gets 421, nothing journalled", run: otherTarget},
		{ID: "I-6", Title: "the keys of a Pod with another UID are not taken", run: otherKeys},
		{ID: "K-1", Title: "a harness with a root secret under 32 bytes does not start", needs: starts, run: func(t *trial) {
			t.refusesToStart(map[string]string{tokenVariable: t.kit.Root[:challenge.MinRootBytes-1]})
		}},
	}
}

const (
	// tokenVariable is where a Pod finds its root secret.
	tokenVariable = "HEARTH_DELIVERY_TOKEN"
	// startPatience bounds how long a harness may take to see that it must not start.
	startPatience = 20 * time.Second
)

// refusesToStart starts harnesses, each with a change to a good environment. One with the good environment has to outlive them
// all: a command that never works would refuse everything.
func (t *trial) refusesToStart(changes ...map[string]string) {
	ctx, cancel := context.WithCancel(t.ctx)
	ended := make(chan error, 1)
	go func() { ended <- t.kit.Start(ctx, t.environ(nil)) }()
	defer func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(startPatience):
		}
	}()
	for _, change := range changes {
		limit, done := context.WithTimeout(t.ctx, startPatience)
		err := t.kit.Start(limit, t.environ(change))
		late := limit.Err() != nil
		done()
		for name := range change {
			t.check(!late, "%s changed: expected the harness to end, it still ran after %s", name, startPatience)
			t.check(err != nil, "%s changed: expected an exit code other than 0", name)
		}
	}
	select {
	case err := <-ended:
		ended <- err
		t.fail("nothing changed: expected the harness to run, it ended (%v)", err)
	default:
	}
}

// environ is what a Pod has; an empty value takes a variable out.
func (t *trial) environ(change map[string]string) []string {
	me := t.kit.Identity
	good := map[string]string{
		"POD_NAMESPACE": orElse(me.Namespace, "default"), "POD_NAME": me.PodName, "POD_UID": me.PodUID, tokenVariable: t.kit.Root,
	}
	var out []string
	for name, value := range good {
		if changed, is := change[name]; is {
			value = changed
		}
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	return out
}

func otherHost(t *trial) {
	k := fresh()
	me := t.kit.Identity.PodName
	for _, host := range []string{"another-pod", "another-pod:4100", me + "x", me + ".example", "127.0.0.1:4100"} {
		for _, c := range []call{t.challenge(), t.delivery(k, t.kit.GoalQuick), t.call(http.MethodGet, wire.RunsPath+"?since=0", nil)} {
			c.host = host
			a := t.send(c)
			t.check(a.status == http.StatusMisdirectedRequest && a.problem.Code == wire.CodeMisdirected,
				"%s with Host %s: expected 421 misdirected, got %s", a.what, host, describe(a.status, a.problem.Code))
		}
	}
	t.neverSeen(k)
}

func otherTarget(t *trial) {
	k := fresh()
	for field, value := range map[string]string{"target.name": "another-pod", "target.uid": "another-uid"} {
		delivery := t.delivery(k, "")
		delivery.body = with(t.content(k, t.kit.GoalQuick), field, value)
		who := t.challenge()
		who.body = with(map[string]any{"apiVersion": wire.APIVersion, "target": t.target()}, field, value)
		for _, c := range []call{who, delivery} {
			a := t.send(c)
			t.check(a.status == http.StatusMisdirectedRequest && a.problem.Code == wire.CodeMisdirected,
				"%s with another %s: expected 421 misdirected, got %s", a.what, field, describe(a.status, a.problem.Code))
		}
	}
	t.neverSeen(k)
}

func otherKeys(t *trial) {
	keys, err := challenge.Derive([]byte(t.kit.Root), "uid-of-another-pod")
	t.check(err == nil, "derive the keys of another Pod: %v", err)
	k := fresh()
	for _, c := range []call{t.challenge(), t.delivery(k, t.kit.GoalQuick)} {
		c.proof = []string{keys.Proof(t.kit.request(c))}
		t.refused(t.send(c), wire.CodeUnauthenticated)
	}
	t.neverSeen(k)
}
