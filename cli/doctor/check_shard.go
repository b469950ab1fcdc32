package doctor

import (
	"slices"
	"strings"

	"github.com/hearthdev/hearth/api/shard"
	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// flagSelector is the controller's flag that says whose Agents it works for.
const flagSelector = "agent-selector"

// holdings are the Leases of all controllers.
func (o Observed) holdings() []shard.Holding { return shard.Read(o.Leases.Value, o.Now) }

// sharded tells whether several controllers divide the Agents among them.
func (o Observed) sharded() bool {
	selector, set := o.flag(flagSelector)
	return set && selector != "" || slices.ContainsFunc(o.holdings(), func(h shard.Holding) bool { return h.Live && h.Lease != shard.LeaseName })
}

// leaders are those of all shards. What one Lease says is about it; a Lease that nobody has any more is of an earlier selector.
func (o Observed) leaders() []Finding {
	if o.Leases.Why != "" {
		return []Finding{notChecked(o.Leases.Why)}
	}
	all := o.holdings()
	var findings []Finding
	for _, h := range all {
		if h.Live {
			findings = append(findings, ok("%s leads, renewed %s; %s", holder(h), ago(o.Now, h.Renewed), h.Set.Words()).about("Lease", h.Lease))
		}
	}
	if len(findings) == 0 {
		return []Finding{fail(LeaderMissing, "no controller holds a lease in %s", o.System).do("kubectl -n %s logs -l app.kubernetes.io/name=hearth --tail=20", o.System)}
	}
	if nobodys := shard.Unserved(all); !nobodys.Empty() {
		f := hint(ShardUnserved, "no controller leads for some Agents, if there are any").saw("%s", nobodys.Words())
		findings = append(findings, f.do("kubectl -n %s get leases", o.System).do("kubectl -n %s logs -l app.kubernetes.io/name=hearth --tail=20", o.System))
	}
	return findings
}

// shard says who works for an Agent.
func (o Observed) shard(a AgentSeen) []Finding {
	if o.Leases.Why != "" {
		return []Finding{notChecked(o.Leases.Why)}
	}
	labels, of := a.Agent.Value.Labels, shard.Name(a.Agent.Value.Labels)
	var others []string
	for _, h := range o.holdings() {
		if h.Live && h.Set.Has(labels) {
			return []Finding{ok("it is of shard %s, for which %s leads by lease %s", of, holder(h), h.Lease)}
		}
		if h.Live {
			others = append(others, h.Lease+" ("+h.Set.Words()+")")
		}
	}
	want := "hearth.dev/shard=" + labels[hearthv1.LabelShard]
	if _, named := labels[hearthv1.LabelShard]; !named {
		want = "!" + hearthv1.LabelShard
	}
	f := fail(ShardUnserved, "no controller leads for its shard, %s", of)
	if len(others) > 0 {
		f = f.saw("there are %s", strings.Join(others, "; "))
	}
	return []Finding{f.do("kubectl -n %s get deployments,leases", o.System).
		do("start a controller with --agent-selector='%s', or have one that is there select it too (docs/install.md, Shards)", want)}
}

func holder(h shard.Holding) string {
	name, _, _ := strings.Cut(h.Holder, "_")
	return name
}
