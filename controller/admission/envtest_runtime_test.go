package admission_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// The API server's own rules of what can be said of a runtime together, with messages that say what was expected.
func TestWhatARuntimeCannotBeIsRefused(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	const anAddress = "endpoint is ws://, a loopback address, a port and perhaps a path"
	for name, c := range map[string]struct {
		change func(*v1alpha1.AgentRuntime)
		says   string // "": it is stored
	}{
		"no agent":                  {func(r *v1alpha1.AgentRuntime) { r.Command = nil }, "command, endpoint or both say where the agent is"},
		"a server beside":           {func(r *v1alpha1.AgentRuntime) { r.Command, r.Endpoint = nil, "ws://127.0.0.1:4001/acp" }, ""},
		"a server of its own":       {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://localhost:65535" }, ""},
		"an IPv6 address":           {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://[::1]:1/" }, ""},
		"another loopback address":  {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://127.1.2.255:14000/a/b-c_d.e~f" }, ""},
		"another host":              {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://10.0.0.1:4001/acp" }, anAddress},
		"a host that looks like it": {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://127.0.0.1.example.com:4001/acp" }, anAddress},
		"no such address":           {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://127.0.0.256:4001/acp" }, anAddress},
		"a user":                    {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://u:p@127.0.0.1:4001/acp" }, anAddress},
		"a key":                     {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://127.0.0.1:4001/acp?token=x" }, anAddress},
		"no port":                   {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://127.0.0.1/acp" }, anAddress},
		"no such port":              {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://127.0.0.1:65536/acp" }, anAddress},
		"another scheme":            {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "wss://127.0.0.1:4001/acp" }, anAddress},
		"the harness's port":        {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://127.0.0.1:4000" }, "spec.runtime.endpoint: expected another port than 4"},
		"its other port":            {func(r *v1alpha1.AgentRuntime) { r.Endpoint = "ws://[::1]:4100/acp" }, "spec.runtime.endpoint: expected another port than 4"},
		"one server, two agents": {func(r *v1alpha1.AgentRuntime) { r.Endpoint, r.Delivery.Concurrency = "ws://127.0.0.1:4001", 2 },
			"an Agent with an endpoint has a delivery.concurrency of 1"},
		"one session":             {func(r *v1alpha1.AgentRuntime) { r.Session = v1alpha1.SessionStanding }, ""},
		"one session, two agents": {func(r *v1alpha1.AgentRuntime) { r.Session, r.Delivery.Concurrency = v1alpha1.SessionStanding, 2 }, "session Standing needs delivery, with a concurrency of 1"},
		"no such session":         {func(r *v1alpha1.AgentRuntime) { r.Session = "Old" }, `supported values: "Fresh", "Standing"`},
		"asking":                  {func(r *v1alpha1.AgentRuntime) { r.Permissions.Policy = v1alpha1.PermissionAsk }, ""},
		"asking for a day":        {func(r *v1alpha1.AgentRuntime) { r.Permissions = ask(86400) }, ""},
		"asking for longer":       {func(r *v1alpha1.AgentRuntime) { r.Permissions = ask(86401) }, "less than or equal to 86400"},
		"asking for no time":      {func(r *v1alpha1.AgentRuntime) { r.Permissions = ask(0) }, "greater than or equal to 1"},
		"a time to ask for nobody": {func(r *v1alpha1.AgentRuntime) {
			r.Permissions = v1alpha1.Permissions{AskTimeoutSeconds: ptr.To[int32](9)}
		}, "only the policy Ask has askTimeoutSeconds"},
		"JSON":               {func(r *v1alpha1.AgentRuntime) { r.Output.MediaType = v1alpha1.MediaTypeJSON }, ""},
		"another media type": {func(r *v1alpha1.AgentRuntime) { r.Output.MediaType = "text/html" }, `supported values: "text/plain", "application/json"`},
		"no such steering":   {func(r *v1alpha1.AgentRuntime) { r.Steering = "Both" }, `supported values: "WatchOnly", "Steer"`},
	} {
		agent := w.agent("reviewer")
		c.change(&agent.Spec.Runtime)
		err := w.user.Create(ctx, agent, client.DryRunAll)
		if c.says == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.says, name)
		}
	}
	task := w.task("digest")
	task.Spec.Runtime.Session = v1alpha1.SessionStanding
	assert.ErrorContains(t, w.user.Create(ctx, task), "session Standing needs delivery")
}

func ask(seconds int32) v1alpha1.Permissions {
	return v1alpha1.Permissions{Policy: v1alpha1.PermissionAsk, AskTimeoutSeconds: &seconds}
}

// R21: a run has the Agent's runtime as it was, and nobody changes it afterwards.
func TestARunKeepsTheTermsThatItWasMadeWith(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	agent := w.agent("reviewer")
	agent.Spec.Runtime = v1alpha1.AgentRuntime{Endpoint: "ws://127.0.0.1:4001/acp", Delivery: &v1alpha1.DeliveryRuntime{}, Output: v1alpha1.OutputRuntime{MediaType: v1alpha1.MediaTypeJSON},
		Permissions: ask(60), Steering: v1alpha1.SteeringSteer, Session: v1alpha1.SessionStanding}
	require.NoError(t, w.user.Create(ctx, agent))
	run := w.run("work", "reviewer")
	require.NoError(t, w.user.Create(ctx, run))
	assert.Equal(t, &agent.Spec.Runtime, run.Spec.Runtime)
	assert.Equal(t, ask(60), run.Spec.Runtime.Permissions)

	changed := agent.DeepCopy()
	changed.Spec.Runtime.Steering = v1alpha1.SteeringWatchOnly
	require.NoError(t, w.user.Patch(ctx, changed, client.MergeFrom(agent)))
	var stored v1alpha1.AgentRun
	require.NoError(t, w.user.Get(ctx, client.ObjectKeyFromObject(run), &stored))
	assert.Equal(t, v1alpha1.SteeringSteer, stored.Spec.Runtime.Steering)
	forged := stored.DeepCopy()
	forged.Spec.Runtime.Session = v1alpha1.SessionFresh
	refused(t, w.user.Patch(ctx, forged, client.MergeFrom(&stored)), "Forbidden", "spec.runtime")
}
