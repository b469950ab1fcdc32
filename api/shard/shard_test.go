package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// SPEC.md, Shards: one selector has one meaning, one canonical form and one Lease, however it is written.
func TestASelectorIsReadAsTheSetThatItSelects(t *testing.T) {
	for in, want := range map[string]struct {
		canonical, words string
	}{
		"":                                     {"", "every Agent"},
		" ":                                    {"", "every Agent"},
		"hearth.dev/shard=a":                   {"hearth.dev/shard in (a)", "Agents: those of shard a"},
		"hearth.dev/shard==a":                  {"hearth.dev/shard in (a)", "Agents: those of shard a"},
		"hearth.dev/shard in (b, a,b)":         {"hearth.dev/shard in (a,b)", "Agents: those of shard a, b"},
		"hearth.dev/shard":                     {"hearth.dev/shard", "Agents: those of every named shard"},
		"!hearth.dev/shard":                    {"!hearth.dev/shard", "Agents: those without the label hearth.dev/shard"},
		"hearth.dev/shard!=a":                  {"hearth.dev/shard notin (a)", "Agents: those of every named shard but a, and those without the label hearth.dev/shard"},
		"hearth.dev/shard notin (b,a)":         {"hearth.dev/shard notin (a,b)", "Agents: those of every named shard but a, b, and those without the label hearth.dev/shard"},
		"hearth.dev/shard,hearth.dev/shard!=a": {"hearth.dev/shard,hearth.dev/shard notin (a)", "Agents: those of every named shard but a"},
		"hearth.dev/shard!=b,hearth.dev/shard in (a,b)":         {"hearth.dev/shard in (a)", "Agents: those of shard a"},
		"hearth.dev/shard notin (a),!hearth.dev/shard":          {"!hearth.dev/shard", "Agents: those without the label hearth.dev/shard"},
		"hearth.dev/shard in (a,b),hearth.dev/shard in (b,c)":   {"hearth.dev/shard in (b)", "Agents: those of shard b"},
		"hearth.dev/shard notin (a),hearth.dev/shard notin (b)": {"hearth.dev/shard notin (a,b)", "Agents: those of every named shard but a, b, and those without the label hearth.dev/shard"},
	} {
		s, err := Parse(in)
		require.NoError(t, err, in)
		assert.Equal(t, want.canonical, s.String(), in)
		assert.Equal(t, want.words, s.Words(), in)
		again, err := Parse(s.String())
		require.NoError(t, err, in)
		assert.Equal(t, s, again, in)
		assert.Equal(t, s.Lease(), again.Lease(), in)
	}
}

func TestWhatIsNoSelectorOverTheLabelIsRefusedWithWhatIsExpected(t *testing.T) {
	many := make([]string, MaxNames+1)
	for i := range many {
		many[i] = fmt.Sprintf("s%d", i)
	}
	for in, says := range map[string]string{
		"team=a":                                "expected a label selector over hearth.dev/shard alone",
		"hearth.dev/shard=a,team=b":             `"team" is another label`,
		"a":                                     `"a" is another label`,
		"hearth.dev/shard in (a":                "is none",
		"hearth.dev/shard>3":                    `"gt" compares`,
		"hearth.dev/shard=":                     "expected no empty name of a shard",
		"hearth.dev/shard in (a,)":              "expected no empty name of a shard",
		"hearth.dev/shard=-a":                   "is none",
		"hearth.dev/shard=a,hearth.dev/shard=b": "contradicts itself",
		"hearth.dev/shard,!hearth.dev/shard":    "contradicts itself",
		"hearth.dev/shard in (" + strings.Join(many, ",") + ")": "expected at most 128 shards by name, there are 129",
	} {
		_, err := Parse(in)
		require.ErrorContains(t, err, says, in)
	}
}

func TestALeasesNameIsKept(t *testing.T) {
	assert.Equal(t, "hearth-controller", All().Lease(), "the name that there was before there were shards")
	assert.Equal(t, "hearth-controller-a9aaf8b2f9", Of("a").Lease())
	assert.NotEqual(t, Of("a").Lease(), Of("b").Lease())
}

var names = []string{"a", "b", "c", "d"}

func drawn(t *rapid.T, label string) Set {
	return Set{bare: rapid.Bool().Draw(t, label+" bare"), except: rapid.Bool().Draw(t, label+" except"),
		names: sorted(rapid.SliceOfN(rapid.SampledFrom(names), 0, 3).Draw(t, label+" names"))}
}

// everyone are the labels of something of each shard that the drawn sets can tell apart.
func everyone() []map[string]string {
	all := []map[string]string{nil, {v1alpha1.LabelShard: ""}, {v1alpha1.LabelShard: "other"}}
	for _, name := range names {
		all = append(all, map[string]string{v1alpha1.LabelShard: name, "team": "x"})
	}
	return all
}

func TestSetsAreThoseOfTheirMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := drawn(t, "s"), drawn(t, "u")
		for _, one := range everyone() {
			assert.Equal(t, s.Has(one) && u.Has(one), s.And(u).Has(one))
			assert.Equal(t, s.Has(one) || u.Has(one), s.Or(u).Has(one))
			assert.Equal(t, !s.Has(one), s.Without().Has(one))
		}
		some, every := false, true
		for _, one := range everyone() {
			some, every = some || s.Has(one), every && s.Has(one)
		}
		assert.Equal(t, !some, s.Empty())
		assert.Equal(t, every, s.Everything())
	})
}

// What the API server selects for the caches is what the filter of Agents lets pass, or a run would be seen without its Agent.
func TestTheFilterIsTheSelector(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			list := strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(t, "names"), ",")
			return rapid.SampledFrom([]string{"hearth.dev/shard=" + list[:1], "hearth.dev/shard!=" + list[:1], "hearth.dev/shard in (" + list + ")",
				"hearth.dev/shard notin (" + list + ")", "hearth.dev/shard", "!hearth.dev/shard"}).Draw(t, "kind")
		}), 0, 3).Draw(t, "parts"), ",")
		asWritten, err := labels.Parse(text)
		require.NoError(t, err)
		s, err := Parse(text)
		for _, one := range everyone() {
			if err != nil { // it contradicts itself
				assert.False(t, asWritten.Matches(labels.Set(one)), text)
				continue
			}
			assert.Equal(t, asWritten.Matches(labels.Set(one)), s.Has(one), "%s: %v", text, one)
			assert.Equal(t, s.Has(one), s.Selector().Matches(labels.Set(one)), "%s: %v", text, one)
		}
	})
}

func lease(name, selector, holder string, renewed time.Time) coordinationv1.Lease {
	l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if selector != "" {
		l.Annotations = map[string]string{AnnotationSelector: selector}
	}
	l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To(holder), ptr.To(metav1.NewMicroTime(renewed))
	return l
}

func TestLeasesTellWhoWorksForWhom(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	a, b, rest := Of("a"), Of("b"), Of("a", "b").Without()
	all := Read([]coordinationv1.Lease{
		lease(rest.Lease(), rest.String(), "pod-r_1", now),
		lease(a.Lease(), a.String(), "pod-a_1", ago(Silent)),
		lease(b.Lease(), b.String(), "pod-b_1", ago(Silent+time.Second)),
		lease("hearth-controller-else", "", "somebody", now),
		lease("another", "hearth.dev/shard=a", "somebody", now),
		{ObjectMeta: metav1.ObjectMeta{Name: "hearth-controller"}},
	}, now)
	require.Len(t, all, 4, "a Lease of another program is none of ours")
	assert.Empty(t, Overlapping(a, all))
	assert.Equal(t, "Agents: those of shard b", Unserved(all).Words(), "who does not renew its Lease works for nobody")

	whole := append(all, Read([]coordinationv1.Lease{lease(LeaseName, "", "pod-w_1", now)}, now)...)
	assert.True(t, Unserved(whole).Empty())
	require.Len(t, Overlapping(a, whole), 1, "a controller without a selector, or from before there were any, works for every Agent")
	assert.Equal(t, LeaseName, Overlapping(a, whole)[0].Lease)

	newer := Read([]coordinationv1.Lease{lease("hearth-controller-x", "tier in (gold)", "pod-x_1", now)}, now)
	assert.True(t, newer[0].Unread)
	assert.Len(t, Overlapping(a, newer), 1, "what cannot be read may be anything")
	assert.Equal(t, "no Agent", Unserved(newer).Words())
}
