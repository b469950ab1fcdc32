package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

const (
	// LeaseName is that of the Lease of controllers that work for every Agent; those of others begin with it and a hyphen.
	LeaseName = "hearth-controller"
	// AnnotationSelector holds, on a Lease of ours, the selector of those who hold it in turn. The one of LeaseName has none.
	AnnotationSelector = "hearth.dev/agent-selector"
	// Silent is how long the holder of a Lease may not have renewed it before it counts as gone, by any clock: four times as long as it
	// is given, which leaves room for clocks that differ.
	Silent = time.Minute

	hashed = 5 // bytes of the selector's digest in a name
)

// Lease is the name of the Lease of controllers with this set: one name however the selector is written, so that replicas find each other.
func (s Set) Lease() string {
	if s.Everything() {
		return LeaseName
	}
	sum := sha256.Sum256([]byte(s.String()))
	return LeaseName + "-" + hex.EncodeToString(sum[:hashed])
}

// Holding is what a Lease tells of the controllers of a set.
type Holding struct {
	Lease string
	Set   Set
	// Unread: its selector was written by another version and means nothing to this one; it counts as everything.
	Unread bool
	// Holder leads, "" for nobody; Live tells whether it has renewed the Lease.
	Holder  string
	Renewed time.Time
	Live    bool
}

// Read reads the Leases of a namespace that are of ours, by name.
func Read(leases []coordinationv1.Lease, now time.Time) []Holding {
	var out []Holding
	for i := range leases {
		l := &leases[i]
		selector, says := l.Annotations[AnnotationSelector]
		if l.Name != LeaseName && (!says || !strings.HasPrefix(l.Name, LeaseName+"-")) {
			continue
		}
		h := Holding{Lease: l.Name, Set: All(), Holder: ptr.Deref(l.Spec.HolderIdentity, "")}
		if l.Name != LeaseName {
			set, err := Parse(selector)
			if h.Unread = err != nil; !h.Unread {
				h.Set = set
			}
		}
		if l.Spec.RenewTime != nil {
			h.Renewed = l.Spec.RenewTime.Time
		}
		h.Live = h.Holder != "" && now.Sub(h.Renewed) <= Silent
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Holding) int { return cmp.Compare(a.Lease, b.Lease) })
	return out
}

// Overlapping are the living others that work for Agents of this set, too.
func Overlapping(own Set, all []Holding) []Holding {
	return slices.DeleteFunc(slices.Clone(all), func(h Holding) bool {
		return !h.Live || h.Lease == own.Lease() || own.And(h.Set).Empty()
	})
}

// Unserved has the shards that nobody living works for.
func Unserved(all []Holding) Set {
	var served Set
	for _, h := range all {
		if h.Live {
			served = served.Or(h.Set)
		}
	}
	return served.Without()
}
