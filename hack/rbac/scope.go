package main

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// namespaced tells of each resource that a marker names whether it lives in a namespace, by group and resource.
var namespaced = map[string]bool{
	"/pods":                     true,
	"/secrets":                  true,
	"/services":                 true,
	"events.k8s.io/events":      true,
	"hearth.dev/agents":         true,
	"agents.x-k8s.io/sandboxes": true,
	"hearth.dev/agentruns":      true,
	"admissionregistration.k8s.io/mutatingwebhookconfigurations":   false,
	"admissionregistration.k8s.io/validatingwebhookconfigurations": false,
}

// scope tells whether all that a rule is about lives in namespaces. A resource that is not known is an error: a wrong guess would
// be a right too many or too few.
func scope(rule rbacv1.PolicyRule) (bool, error) {
	if len(rule.NonResourceURLs) > 0 {
		return false, nil
	}
	seen := map[bool]bool{}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			base, _, _ := strings.Cut(resource, "/") // a subresource is where its resource is
			in, known := namespaced[group+"/"+base]
			if !known {
				return false, fmt.Errorf("resource %s/%s: expected one that hack/rbac knows: add whether it is namespaced", group, resource)
			}
			seen[in] = true
		}
	}
	if len(seen) != 1 {
		return false, fmt.Errorf("rule about %v: expected resources of one scope", rule.Resources)
	}
	return seen[true], nil
}
