package main

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// whoami asks the API server which user our writes come from, so that admission knows them.
func whoami(ctx context.Context, c client.Client) (string, error) {
	var review authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &review); err != nil {
		return "", fmt.Errorf("ask the API server who we are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// granted asks whether we may do what the flags tell us to. Without the answer here the caches of a namespace would try for
// minutes while no other namespace is served, and each ad-hoc run would be refused with what only its author sees.
func granted(ctx context.Context, c client.Client, o options) error {
	for _, namespace := range o.namespaces {
		may, err := may(ctx, c, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "agentruns"})
		if err != nil {
			return err
		}
		if !may {
			return fmt.Errorf("--namespaces: no right to work in %s: expected `kubectl apply --server-side -n %s -k config/namespaced/grant` before", namespace, namespace)
		}
	}
	if !o.agents.Everything() {
		may, err := may(ctx, c, authorizationv1.ResourceAttributes{Namespace: o.namespace, Verb: "list", Group: coordinationv1.GroupName, Resource: "leases"})
		if err != nil {
			return err
		}
		if !may {
			return fmt.Errorf("--agent-selector: no right to list the Leases of controllers in %s: expected the component config/shards in the installation", o.namespace)
		}
	}
	if !o.adHoc {
		return nil
	}
	may, err := may(ctx, c, authorizationv1.ResourceAttributes{Verb: "create", Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"})
	if err == nil && !may {
		return errors.New("--allow-ad-hoc-runs: no right to ask who may create Pods: expected the component config/ad-hoc in the installation")
	}
	return err
}

func may(ctx context.Context, c client.Client, do authorizationv1.ResourceAttributes) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &do}}
	if err := c.Create(ctx, &review); err != nil {
		return false, fmt.Errorf("ask the API server about our rights: %w", err)
	}
	return review.Status.Allowed, nil
}
