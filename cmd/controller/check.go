package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

const (
	checkLimit = 30 * time.Second
	// nobody is the Agent that check asks a run of.
	nobody = "hearth-check-names-no-agent"
)

// check tells whether an installation answers: the CRDs are served, and admission refuses a run as only it does. Nothing is stored. It is
// to run as a user who may create AgentRuns in the namespace and is not the controller, whose writes pass without a call (charts/hearth,
// helm test).
func check(ctx context.Context, getenv func(string) string, out io.Writer) error {
	namespace := getenv("POD_NAMESPACE")
	if namespace == "" {
		return errors.New("check: expected the namespace to ask in as POD_NAMESPACE")
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("check: find the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	return answers(ctx, config, namespace, out)
}

func answers(ctx context.Context, config *rest.Config, namespace string, out io.Writer) error {
	config = rest.CopyConfig(config)
	config.Timeout = checkLimit
	group := v1alpha1.GroupVersion.String()
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("check: reach the API server: %w", err)
	}
	served, err := kinds.ServerResourcesForGroupVersion(group)
	if err != nil {
		return fmt.Errorf("check: the CRDs of %s are not served; install them (docs/install.md): %w", group, err)
	}
	for _, resource := range []string{"agents", "agentruns"} {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
			return fmt.Errorf("check: %s.%s is not served; install its CRD (docs/install.md)", resource, v1alpha1.GroupVersion.Group)
		}
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("check: reach the API server: %w", err)
	}
	run := &v1alpha1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "check-", Namespace: namespace},
		Spec:       v1alpha1.AgentRunSpec{AgentRef: v1alpha1.AgentRef{Name: nobody}},
	}
	err = c.Create(ctx, run, client.DryRunAll)
	switch {
	case err == nil:
		return errors.New("check: a run of an Agent that does not exist was admitted: the webhook configurations are missing, or this is the controller's own user")
	case refusedBy(err):
		_, _ = fmt.Fprintf(out, "%s is served, and admission answers: %v\n", group, err)
		return nil
	default:
		return fmt.Errorf("check: admission does not answer (docs/install.md): %w", err)
	}
}

// refusedBy tells whether it was admission that refused: as an Agent that is not there, or a namespace that is not served.
func refusedBy(err error) bool {
	return strings.Contains(err.Error(), string("["+v1alpha1.RefusalMissingAgent+"]")) || strings.Contains(err.Error(), string("["+v1alpha1.RefusalNamespaceNotServed+"]"))
}
