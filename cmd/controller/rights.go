package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
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

// granted asks whether we may work in each namespace that we are told to serve. Without the answer here the caches would try for
// minutes, and no other namespace would be served meanwhile.
func granted(ctx context.Context, c client.Client, namespaces []string) error {
	for _, namespace := range namespaces {
		review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "watch", Group: v1alpha1.GroupVersion.Group, Resource: "agentruns"}}}
		if err := c.Create(ctx, &review); err != nil {
			return fmt.Errorf("ask the API server about our rights: %w", err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("--namespaces: no right to work in %s: expected `kubectl apply --server-side -n %s -k config/namespaced/grant` before", namespace, namespace)
		}
	}
	return nil
}
