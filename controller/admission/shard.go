package admission

import (
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

const shardField = "metadata.labels[" + v1alpha1.LabelShard + "]"

// shardKey is the label that Agents, and runs without one, are given a shard by; runs of an Agent get the Agent's.
var shardKey = []string{v1alpha1.LabelShard}

// placed: an empty name could be told from no label by some selectors only.
func placed(o metav1.Object) []Refusal {
	if name, named := o.GetLabels()[v1alpha1.LabelShard]; named && name == "" {
		return []Refusal{{codeInvalid, shardField, "expected the name of a shard; leave the label out for the default shard"}}
	}
	return nil
}

// moved refuses another shard for what is stored: two controllers would work for it while that is under way.
func moved(before, after metav1.Object, instead string) []Refusal {
	if sameShard(before, after) {
		return nil
	}
	return []Refusal{{codeForbidden, shardField, "expected no change: two controllers would work for it at the moment of the change; " + instead}}
}

// astray refuses a run of another shard than its Agent's: nobody would find both.
func astray(agent *v1alpha1.Agent, run *v1alpha1.AgentRun) []Refusal {
	if sameShard(agent, run) {
		return nil
	}
	want := "no such label"
	if name, named := agent.GetLabels()[v1alpha1.LabelShard]; named {
		want = fmt.Sprintf("%q", name)
	}
	return []Refusal{{codeForbidden, shardField, fmt.Sprintf("expected %s, as Agent %s has: leave the label out, it is taken from the Agent; "+
		"if you did, another mutating webhook changed it, exempt agentruns.hearth.dev from that webhook", want, run.Spec.AgentRef.Name)}}
}

func sameShard(a, b metav1.Object) bool {
	of, named := a.GetLabels()[v1alpha1.LabelShard]
	is, has := b.GetLabels()[v1alpha1.LabelShard]
	return of == is && named == has
}

// stamp gives a run its Agent's shard. What its author wrote is compared later, not replaced.
func stamp(run *v1alpha1.AgentRun, agent *v1alpha1.Agent) []jsonpatch.Operation {
	if agent == nil {
		return nil
	}
	name, named := agent.GetLabels()[v1alpha1.LabelShard]
	if _, has := run.Labels[v1alpha1.LabelShard]; has || !named {
		return nil
	}
	if run.Labels == nil {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/labels", map[string]string{v1alpha1.LabelShard: name})}
	}
	return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/labels/hearth.dev~1shard", name)}
}
