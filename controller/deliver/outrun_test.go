package deliver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Row 9: a write that lost a race has the newer read and kept, however old the cache stays; of what cannot be read, or is another's by
// now, the next try is later.
func TestAWriteThatLostARaceIsNotRepeatedAsItWas(t *testing.T) {
	cached := version("a", "5")
	agentruns := schema.GroupResource{Group: hearthv1.GroupVersion.Group, Resource: "agentruns"}
	for name, c := range map[string]struct {
		live *hearthv1.AgentRun
		err  error
		want string // what the next pass works on
		wait time.Duration
	}{
		"newer":     {version("a", "10"), apierrors.NewConflict(agentruns, "run", nil), "10", soon},
		"no newer":  {version("a", "5"), apierrors.NewConflict(agentruns, "run", nil), "5", again},
		"another's": {version("b", "10"), apierrors.NewNotFound(agentruns, "run"), "5", again},
		"gone":      {nil, apierrors.NewNotFound(agentruns, "run"), "5", again},
	} {
		t.Run(name, func(t *testing.T) {
			k := &courier{kube: refusing(c.err), live: holding(c.live), newest: newNewest()}
			err := k.write(t.Context(), cached.DeepCopy())
			require.ErrorIs(t, err, c.err)
			wait, lost := lostRace(err)
			assert.True(t, lost)
			assert.Equal(t, c.wait, wait)
			assert.Equal(t, c.want, k.newest.pick(cached).ResourceVersion)
		})
	}
}

// Of two that keep the same run the slower does not take it back.
func TestTheNewestIsNeverReplacedByAnOlder(t *testing.T) {
	n := newNewest()
	n.put(version("a", "10"))
	n.put(version("a", "9"))
	assert.Equal(t, "10", n.pick(version("a", "5")).ResourceVersion)
	n.put(version("b", "7")) // made anew under the name
	assert.Equal(t, "7", n.pick(version("b", "6")).ResourceVersion)
}

func version(uid, v string) *hearthv1.AgentRun {
	return &hearthv1.AgentRun{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "run", UID: types.UID(uid), ResourceVersion: v}}
}

// refusing answers every status write with an error.
func refusing(err error) kube.Client {
	return interceptor.NewClient(nil, interceptor.Funcs{
		SubResourceUpdate: func(context.Context, kube.Client, string, kube.Object, ...kube.SubResourceUpdateOption) error {
			return err
		},
	})
}

// holding is an API server that has one run, or none.
func holding(run *hearthv1.AgentRun) kube.Reader {
	return interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ kube.WithWatch, key kube.ObjectKey, into kube.Object, _ ...kube.GetOption) error {
			out, ok := into.(*hearthv1.AgentRun)
			if run == nil || !ok {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			run.DeepCopyInto(out)
			return nil
		},
	})
}
