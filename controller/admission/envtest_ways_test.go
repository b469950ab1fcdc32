package admission_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const manager = client.FieldOwner("a-person")

// waysToCreate are those of the API; a dry run must be refused like the real thing, or it would say what is not so.
func waysToCreate(c client.Client) map[string]func(*testing.T, client.Object) error {
	post := func(t *testing.T, o client.Object, opts ...client.CreateOption) error {
		return c.Create(t.Context(), asUnstructured(t, o), opts...)
	}
	apply := func(t *testing.T, o client.Object, opts ...client.ApplyOption) error {
		return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applicable(asUnstructured(t, o))), append(opts, manager)...)
	}
	return map[string]func(*testing.T, client.Object) error{
		"create":          func(t *testing.T, o client.Object) error { return post(t, o) },
		"create, dry run": func(t *testing.T, o client.Object) error { return post(t, o, client.DryRunAll) },
		"generateName": func(t *testing.T, o client.Object) error {
			o.SetGenerateName(o.GetName() + "-")
			o.SetName("")
			return post(t, o)
		},
		"server-side apply":          func(t *testing.T, o client.Object) error { return apply(t, o) },
		"server-side apply, dry run": func(t *testing.T, o client.Object) error { return apply(t, o, client.DryRunAll) },
	}
}

// way writes a change of a stored object.
type way func(t *testing.T, of client.Object, change func(client.Object)) error

func waysToWrite(c client.Client) map[string]way {
	return ways(c, func(ctx context.Context, o *unstructured.Unstructured, dry bool) error {
		if dry {
			return c.Update(ctx, o, client.DryRunAll)
		}
		return c.Update(ctx, o)
	}, func(ctx context.Context, o *unstructured.Unstructured, p client.Patch, opts ...client.PatchOption) error {
		return c.Patch(ctx, o, p, opts...)
	})
}

func waysToWriteStatus(c client.Client) map[string]way {
	return ways(c, func(ctx context.Context, o *unstructured.Unstructured, dry bool) error {
		if dry {
			return c.Status().Update(ctx, o, client.DryRunAll)
		}
		return c.Status().Update(ctx, o)
	}, func(ctx context.Context, o *unstructured.Unstructured, p client.Patch, opts ...client.PatchOption) error {
		var sub []client.SubResourcePatchOption
		for _, opt := range opts {
			sub = append(sub, opt.(client.SubResourcePatchOption))
		}
		return c.Status().Patch(ctx, o, p, sub...)
	})
}

func ways(c client.Client, put func(context.Context, *unstructured.Unstructured, bool) error,
	patch func(context.Context, *unstructured.Unstructured, client.Patch, ...client.PatchOption) error) map[string]way {
	// both gives the object as it is stored and as the forger wants it.
	both := func(t *testing.T, of client.Object, change func(client.Object)) (before, after *unstructured.Unstructured) {
		before = stored(t, c, of)
		typed := of.DeepCopyObject().(client.Object)
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(before.Object, typed))
		change(typed)
		return asUnstructured(t, fresh(t, c, of)), asUnstructured(t, typed)
	}
	as := func(kind types.PatchType, text func(*testing.T, *unstructured.Unstructured, *unstructured.Unstructured) []byte, opts ...client.PatchOption) way {
		return func(t *testing.T, of client.Object, change func(client.Object)) error {
			before, after := both(t, of, change)
			return patch(t.Context(), before, client.RawPatch(kind, text(t, before, after)), opts...)
		}
	}
	merge := func(t *testing.T, before, after *unstructured.Unstructured) []byte {
		text, err := client.MergeFrom(before).Data(after)
		require.NoError(t, err)
		return text
	}
	whole := func(t *testing.T, _, after *unstructured.Unstructured) []byte {
		text, err := json.Marshal(applicable(after).Object)
		require.NoError(t, err)
		return text
	}
	return map[string]way{
		"put": func(t *testing.T, of client.Object, change func(client.Object)) error {
			_, after := both(t, of, change)
			return put(t.Context(), after, false)
		},
		"put, dry run": func(t *testing.T, of client.Object, change func(client.Object)) error {
			_, after := both(t, of, change)
			return put(t.Context(), after, true)
		},
		"JSON patch":                 as(types.JSONPatchType, patchBetween),
		"JSON patch, dry run":        as(types.JSONPatchType, patchBetween, client.DryRunAll),
		"merge patch":                as(types.MergePatchType, merge),
		"merge patch, dry run":       as(types.MergePatchType, merge, client.DryRunAll),
		"server-side apply":          as(types.ApplyPatchType, whole, manager, client.ForceOwnership),
		"server-side apply, dry run": as(types.ApplyPatchType, whole, manager, client.ForceOwnership, client.DryRunAll),
	}
}

// fresh is the stored object, typed as of is.
func fresh(t *testing.T, c client.Client, of client.Object) client.Object {
	t.Helper()
	typed := of.DeepCopyObject().(client.Object)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(of), typed))
	return typed
}

// applicable is an object as somebody would apply it: without what the API server writes.
func applicable(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	return u
}

func isGone(ctx context.Context, t *testing.T, c client.Client, o client.Object) bool {
	t.Helper()
	err := c.Get(ctx, client.ObjectKeyFromObject(o), o)
	require.NoError(t, client.IgnoreNotFound(err))
	return apierrors.IsNotFound(err)
}
