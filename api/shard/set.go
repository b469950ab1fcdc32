// Package shard says which controller works for which Agents: the sets of shards that a controller's --agent-selector can mean, and the
// Leases by which controllers know of each other (SPEC.md, Shards). All of it is pure.
package shard

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// Set is a set of shards: some names, or all but some, with or without the default shard, which is that of objects without the label.
// Selectors over the one label are such sets, so what two of them share, and what several leave out, can be told exactly. The zero value
// is empty.
type Set struct {
	// bare: the default shard is in it.
	bare bool
	// except: names are those that are not in it, else those that are.
	except bool
	// names are sorted, each once.
	names []string
}

// All has every shard: that of a controller without --agent-selector.
func All() Set { return Set{bare: true, except: true} }

// Of has the shards of these names.
func Of(names ...string) Set { return Set{names: sorted(names)} }

// Default has the default shard alone.
func Default() Set { return Set{bare: true} }

// Has tells whether what has these labels belongs to one of the shards.
func (s Set) Has(of map[string]string) bool {
	name, named := of[v1alpha1.LabelShard]
	if !named {
		return s.bare
	}
	return slices.Contains(s.names, name) != s.except
}

// Everything tells whether every shard is in it.
func (s Set) Everything() bool { return s.bare && s.except && len(s.names) == 0 }

// Empty tells whether none is.
func (s Set) Empty() bool { return !s.bare && !s.except && len(s.names) == 0 }

// Without has the shards that are not in s.
func (s Set) Without() Set { return Set{bare: !s.bare, except: !s.except, names: s.names} }

// And has the shards that are in both.
func (s Set) And(t Set) Set {
	out := Set{bare: s.bare && t.bare, except: s.except && t.except}
	switch {
	case s.except && t.except:
		out.names = sorted(slices.Concat(s.names, t.names))
	case s.except:
		out.names = filter(t.names, func(name string) bool { return !slices.Contains(s.names, name) })
	case t.except:
		out.names = filter(s.names, func(name string) bool { return !slices.Contains(t.names, name) })
	default:
		out.names = filter(s.names, func(name string) bool { return slices.Contains(t.names, name) })
	}
	return out
}

// Or has the shards that are in one of them, or in both.
func (s Set) Or(t Set) Set { return s.Without().And(t.Without()).Without() }

// Selector selects in the API server what Has tells of. It is for sets that Parse gives: the default shard and some names are no
// label selector.
func (s Set) Selector() labels.Selector {
	out := labels.NewSelector()
	for _, r := range s.requirements() {
		out = out.Add(r)
	}
	return out
}

func (s Set) requirements() []labels.Requirement {
	var out []labels.Requirement
	add := func(op selection.Operator, names ...string) {
		r, err := labels.NewRequirement(v1alpha1.LabelShard, op, names)
		if err != nil {
			panic("the label of a shard is no valid label: " + err.Error()) // Parse has checked the names; a test builds each kind
		}
		out = append(out, *r)
	}
	switch {
	case !s.except && s.bare:
		add(selection.DoesNotExist)
	case !s.except:
		add(selection.In, s.names...)
	case !s.bare:
		add(selection.Exists)
	}
	if s.except && len(s.names) > 0 {
		add(selection.NotIn, s.names...)
	}
	return out
}

// String is the one way to write the selector of a set that Parse gives, however it was written; "" for everything.
func (s Set) String() string {
	parts := make([]string, 0, 2)
	for _, r := range s.requirements() {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, ",")
}

// Words says in words which Agents a set has.
func (s Set) Words() string {
	var parts []string
	switch {
	case s.Everything():
		return "every Agent"
	case s.Empty():
		return "no Agent"
	case s.except && len(s.names) == 0:
		parts = append(parts, "those of every named shard")
	case s.except:
		parts = append(parts, "those of every named shard but "+strings.Join(s.names, ", "))
	case len(s.names) > 0:
		parts = append(parts, "those of shard "+strings.Join(s.names, ", "))
	}
	if s.bare {
		parts = append(parts, "those without the label "+v1alpha1.LabelShard)
	}
	return "Agents: " + strings.Join(parts, ", and ")
}

// Name is how a shard is called where people read it; the default one has a name of its own.
func Name(of map[string]string) string {
	return cmp.Or(of[v1alpha1.LabelShard], "(default)")
}

// Stamp gives to what is made for an object the object's shard.
func Stamp(onto, of map[string]string) {
	if name, named := of[v1alpha1.LabelShard]; named {
		onto[v1alpha1.LabelShard] = name
	}
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

func filter(names []string, keep func(string) bool) []string {
	var out []string
	for _, name := range names {
		if keep(name) {
			out = append(out, name)
		}
	}
	return out
}
