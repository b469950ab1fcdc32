package sandbox

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hearthdev/hearth/controller/sandbox"
)

//go:embed crd.yaml
var crd []byte

// FieldOwner is under what name the CRD is applied: it tells a double's from a real one.
const FieldOwner = "sandbox-double"

const (
	lookEvery = 50 * time.Millisecond
	patience  = time.Minute
)

// Install applies the CRD and waits until the API server serves the kind.
func Install(ctx context.Context, config *rest.Config) error {
	c, object, err := definition(config)
	if err != nil {
		return err
	}
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("install the CRD: %w", err)
	}
	return served(ctx, config, true)
}

// Uninstall deletes the CRD, with every Sandbox, and waits until the API server does not serve the kind any more.
func Uninstall(ctx context.Context, config *rest.Config) error {
	c, object, err := definition(config)
	if err != nil {
		return err
	}
	if err := c.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the CRD: %w", err)
	}
	return served(ctx, config, false)
}

func definition(config *rest.Config) (client.Client, *unstructured.Unstructured, error) {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, nil, fmt.Errorf("reach the API server: %w", err)
	}
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(crd, &object.Object); err != nil {
		return nil, nil, fmt.Errorf("read the CRD: %w", err)
	}
	return c, &object, nil
}

func served(ctx context.Context, config *rest.Config, want bool) error {
	asks, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, lookEvery, patience, true, func(ctx context.Context) (bool, error) {
		_, err := asks.ServerResourcesForGroupVersionWithContext(ctx, sandbox.GroupVersion.String())
		if err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
		return (err == nil) == want, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the CRD: %w", err)
	}
	return nil
}
