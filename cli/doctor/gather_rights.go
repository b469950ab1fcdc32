package doctor

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// reviewsAtOnce bounds how many questions about rights are under way.
const reviewsAtOnce = 8

// granted are the rights that config/rbac and, for one namespace, config/namespaced/grant give the controller. A test compares them.
var granted = []struct {
	group, resource, subresource string
	verbs                        []string
}{
	{"", "pods", "", []string{"create", "delete", "get", "list", "watch"}},
	{"", "secrets", "", []string{"create", "get"}},
	{"", "services", "", []string{"create", "get", "list", "watch"}},
	{"agents.x-k8s.io", "sandboxes", "", []string{"create", "delete", "get", "list", "watch"}},
	{"events.k8s.io", "events", "", []string{"create", "patch"}},
	{group, "agentruns", "", []string{"create", "delete", "get", "list", "watch"}},
	{group, "agentruns", "status", []string{"update"}},
	{group, "agents", "status", []string{"update"}},
	{group, "agents", "", []string{"get", "list", "watch"}},
}

// controllersRights are all that the controller needs to work in a namespace.
func controllersRights(namespace, system string) (all []Right) {
	for _, g := range granted {
		for _, verb := range g.verbs {
			all = append(all, Right{Verb: verb, Group: g.group, Resource: g.resource, Subresource: g.subresource, Namespace: namespace})
		}
	}
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		for _, verb := range []string{"get", "update"} {
			all = append(all, Right{Verb: verb, Group: "admissionregistration.k8s.io", Resource: kind, Name: webhookConfiguration})
		}
	}
	for _, verb := range []string{"get", "update"} {
		all = append(all, Right{Verb: verb, Group: "coordination.k8s.io", Resource: "leases", Name: leaseName, Namespace: system},
			Right{Verb: verb, Resource: "secrets", Name: webhookSecret, Namespace: system})
	}
	return append(all, Right{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: system})
}

// What a person's rights are for, and where they come from.
const (
	forRuns  = "make runs"
	forPods  = "look into Pods"
	forKeys  = "read the key to watch"
	forPorts = "connect to Pods (hearth attach, hearth connect, and the doctor's own look at ports)"
)

// personsRights are those that a person's commands need.
func personsRights(namespace, agent string) []Right {
	bind := func(role string) string {
		return "kubectl create rolebinding NAME -n " + namespace + " --clusterrole=" + role + " --user=YOU   # by somebody who may"
	}
	view, _ := hearthv1.KeySecretNames(agent)
	rights := []Right{
		{Verb: "create", Group: group, Resource: "agentruns", For: forRuns, Role: bind("hearth-edit")},
		{Verb: "get", Resource: "pods", For: forPods, Role: bind("view")},
		{Verb: "get", Resource: "pods", Subresource: "log", For: forPods, Role: bind("view")},
		{Verb: "get", Resource: "pods", Subresource: "portforward", For: forPorts, Role: bind("hearth-connect")},
		{Verb: "create", Resource: "pods", Subresource: "portforward", For: forPorts, Role: bind("hearth-connect")},
	}
	if agent != "" {
		rights = append(rights, Right{Verb: "get", Resource: "secrets", Name: view, For: forKeys,
			Role: "kubectl create role " + view + " -n " + namespace + " --verb=get --resource=secrets --resource-name=" + view + "   # and a rolebinding, by somebody who may"})
	}
	for i := range rights {
		rights[i].Namespace = namespace
	}
	return rights
}

// rights asks what the controller may, and what the person may.
func (c *Cluster) rights(ctx context.Context, seen *Observed) {
	seen.YouMay = c.review(ctx, personsRights(seen.Namespace, seen.Wanted), func(ctx context.Context, a *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a}}
		err := c.client.Create(ctx, review)
		return review.Status.Allowed, err
	})
	seen.ControllerMay = c.review(ctx, controllersRights(seen.Namespace, seen.System), func(ctx context.Context, a *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: seen.ControllerUser, ResourceAttributes: a,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + seen.System, "system:authenticated"}}}
		err := c.client.Create(ctx, review)
		return review.Status.Allowed, err
	})
}

func (c *Cluster) review(ctx context.Context, rights []Right, ask func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)) Read[[]Right] {
	return read(ctx, func(ctx context.Context) ([]Right, error) {
		answers := slices.Clone(rights)
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(reviewsAtOnce)
		for i := range answers {
			group.Go(func() (err error) {
				r := &answers[i]
				r.Allowed, err = ask(ctx, &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource,
					Subresource: r.Subresource, Name: r.Name, Namespace: r.Namespace})
				return err
			})
		}
		return answers, group.Wait()
	})
}
