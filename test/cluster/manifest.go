package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is who applies; server-side apply keeps what others (the certificate rotator) wrote.
const fieldOwner = client.FieldOwner("hearth-install")

// installOrder is the order of kinds; what is not named goes between Services and webhooks.
var installOrder = map[string]int{
	"Namespace": -9, "CustomResourceDefinition": -8, "ServiceAccount": -7, "ClusterRole": -6, "Role": -6,
	"ClusterRoleBinding": -5, "RoleBinding": -5, "Secret": -4, "ConfigMap": -4, "Service": -3,
	"MutatingWebhookConfiguration": 1, "ValidatingWebhookConfiguration": 1,
}

// Read reads YAML files and puts their objects in install order.
func Read(files ...string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file) // #nosec G304 -- the project's own manifests
		if err != nil {
			return nil, err
		}
		objects, err := Parse(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, objects...)
	}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int {
		return installOrder[a.GetKind()] - installOrder[b.GetKind()]
	})
	return all, nil
}

// Parse reads the documents of one YAML text.
func Parse(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("document %d: %w", len(objects)+1, err)
		case len(object.Object) == 0: // only comments
		case object.GetKind() == "" || object.GetName() == "" && object.GetGenerateName() == "":
			return nil, fmt.Errorf("document %d: expected kind and metadata.name", len(objects)+1)
		default:
			objects = append(objects, object)
		}
	}
}

// Apply applies objects server-side in their order. Those of a namespaced kind that name no namespace get the given one. CRDs
// are waited for, so that objects of their kinds may follow.
func (c *Cluster) Apply(ctx context.Context, namespace string, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		object = object.DeepCopy()
		namespaced, err := c.Client.IsObjectNamespaced(object)
		if err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("apply %s: %w", describe(object), err)
		}
		if namespaced && object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
		err = c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s: %w", describe(object), err)
		}
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if err := c.waitEstablished(ctx, object.GetName()); err != nil {
			return err
		}
	}
	return nil
}

func describe(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

func (c *Cluster) waitEstablished(ctx context.Context, name string) error {
	return c.Wait(ctx, "CustomResourceDefinition "+name, time.Minute, func(ctx context.Context) (bool, string, error) {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
			return false, "", err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, "Established", nil
			}
		}
		return false, "not established", nil
	})
}

// Namespace makes a namespace that admits only Pods of the restricted standard.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := c.Client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}
