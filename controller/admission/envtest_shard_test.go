package admission_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

const shardLabel = "metadata.labels[hearth.dev/shard]"

func in(shard string) map[string]string { return map[string]string{v1alpha1.LabelShard: shard} }

// SPEC.md, Shards: an Agent is given a shard when it is made, and its runs have it from admission, whatever their author wrote.
func TestARunHasTheShardOfItsAgent(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	sharded, plain := w.agent("sharded"), w.agent("plain")
	sharded.Labels = in("blue")
	require.NoError(t, w.user.Create(ctx, sharded))
	require.NoError(t, w.user.Create(ctx, plain))

	for name, c := range map[string]struct {
		agent  string
		labels map[string]string
		want   map[string]string
	}{
		"without-labels":     {"sharded", nil, in("blue")},
		"with-other-labels":  {"sharded", map[string]string{"team": "payments"}, map[string]string{"team": "payments", v1alpha1.LabelShard: "blue"}},
		"with-that-label":    {"sharded", in("blue"), in("blue")},
		"of-the-default-one": {"plain", map[string]string{"team": "payments"}, map[string]string{"team": "payments"}},
	} {
		run := w.run(name, c.agent)
		run.Labels = c.labels
		require.NoError(t, w.user.Create(ctx, run), name)
		var stored v1alpha1.AgentRun
		require.NoError(t, w.admin.Get(ctx, client.ObjectKeyFromObject(run), &stored))
		assert.Equal(t, c.want, stored.Labels, name)
	}
	elsewhere := w.run("elsewhere", "sharded")
	elsewhere.Labels = in("green")
	err := w.user.Create(ctx, elsewhere)
	refused(t, err, "Forbidden", shardLabel)
	require.ErrorContains(t, err, `expected "blue", as Agent sharded has`)
	named := w.run("named", "plain")
	named.Labels = in("blue")
	err = w.user.Create(ctx, named)
	refused(t, err, "Forbidden", shardLabel)
	require.ErrorContains(t, err, "expected no such label, as Agent plain has")
}

// SPEC.md, Shards: what is stored keeps its shard, because while it changed two controllers would work for it.
func TestAShardIsGivenOnce(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	sharded, plain, nameless := w.agent("sharded"), w.agent("plain"), w.agent("nameless")
	sharded.Labels, nameless.Labels = in("blue"), in("")
	require.NoError(t, w.user.Create(ctx, sharded))
	require.NoError(t, w.user.Create(ctx, plain))
	refused(t, w.user.Create(ctx, nameless), "Invalid", shardLabel)
	run := w.run("work", "sharded")
	require.NoError(t, w.user.Create(ctx, run))

	for object, changes := range map[client.Object][]map[string]string{
		sharded: {in("green"), in(""), nil},
		plain:   {in("green"), in("")},
		run:     {in("green"), nil},
	} {
		for _, labels := range changes {
			changed := object.DeepCopyObject().(client.Object)
			changed.SetLabels(labels)
			refused(t, w.user.Patch(ctx, changed, client.MergeFrom(object)), "Forbidden", shardLabel)
		}
		changed := object.DeepCopyObject().(client.Object)
		labels := map[string]string{"team": "payments"}
		if of, named := object.GetLabels()[v1alpha1.LabelShard]; named {
			labels[v1alpha1.LabelShard] = of
		}
		changed.SetLabels(labels)
		require.NoError(t, w.user.Patch(ctx, changed, client.MergeFrom(object)), "other labels are anybody's")
	}
}
