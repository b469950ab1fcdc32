package shard

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// MaxNames bounds the shards that one selector names: each list and watch of a controller carries it.
const MaxNames = 128

const expected = "expected a label selector over " + v1alpha1.LabelShard + " alone: =, !=, in, notin, the label for any shard with a name, !label for the default one, with commas between them"

// Parse reads what --agent-selector says: a label selector over hearth.dev/shard and no other label. The empty one has everything.
func Parse(selector string) (Set, error) {
	requirements, err := labels.ParseToRequirements(selector)
	if err != nil {
		return Set{}, fmt.Errorf("%s; %.127q is none", expected, selector)
	}
	out := All()
	for _, r := range requirements {
		one, err := of(r)
		if err != nil {
			return Set{}, err
		}
		out = out.And(one)
	}
	switch {
	case out.Empty():
		return Set{}, fmt.Errorf("expected a selector that something can have, %.127q contradicts itself", selector)
	case len(out.names) > MaxNames:
		return Set{}, fmt.Errorf("expected at most %d shards by name, there are %d", MaxNames, len(out.names))
	}
	return out, nil
}

func of(r labels.Requirement) (Set, error) {
	if r.Key() != v1alpha1.LabelShard {
		return Set{}, fmt.Errorf("%s; %.63q is another label", expected, r.Key())
	}
	named := Of(r.ValuesUnsorted()...)
	if slices.Contains(named.names, "") {
		return Set{}, errors.New("expected no empty name of a shard: nothing can have it; the default shard is !" + v1alpha1.LabelShard)
	}
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return named, nil
	case selection.NotEquals, selection.NotIn:
		return named.Without(), nil
	case selection.Exists:
		return Default().Without(), nil
	case selection.DoesNotExist:
		return Default(), nil
	case selection.GreaterThan, selection.LessThan:
	}
	return Set{}, fmt.Errorf("%s; %q compares", expected, r.Operator())
}
