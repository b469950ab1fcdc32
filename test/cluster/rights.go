package cluster

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Right is one verb on one resource that a role grants, and on one object where the role names objects.
type Right struct {
	// Namespace is a Role's, "" for a right in every namespace.
	Namespace string
	Group     string
	// Resource is with its subresource, such as pods/status.
	Resource string
	Name     string
	Verb     string
}

func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// allows tells whether the right is one to make that request.
func (r Right) allows(e AuditEvent) bool {
	o := e.ObjectRef
	return r.Verb == e.Verb && r.Group == o.APIGroup && r.Resource == o.resource() && (r.Namespace == "" || r.Namespace == o.Namespace) &&
		(r.Name == "" || r.Name == o.Name)
}

// AdHocComponent is the folder of config/ with what ad-hoc runs need.
const AdHocComponent = "ad-hoc"

// ControllerRights are those of the controller as config/ installs it, and those that the named components of it add. root is the
// project's directory.
func ControllerRights(root string, components ...string) ([]Right, error) {
	var files []string
	for _, part := range append([]string{"."}, components...) {
		found, err := resources(filepath.Join(root, "config", part))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	objects, err := Read(files...)
	if err != nil {
		return nil, err
	}
	return RightsOf(objects, SystemNamespace, ControllerAccount)
}

// RightsOf are all rights that the manifests grant to a service account, each once and in order.
func RightsOf(manifests []*unstructured.Unstructured, namespace, account string) ([]Right, error) {
	roles := map[string][]rbacv1.PolicyRule{} // by kind, namespace and name
	var granted []grant
	for _, object := range manifests {
		key := object.GetKind() + "/" + object.GetNamespace() + "/"
		switch object.GetKind() {
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole // a Role has the same rules
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				return nil, fmt.Errorf("%s: %w", describe(object), err)
			}
			roles[key+role.Name] = role.Rules
		case "RoleBinding", "ClusterRoleBinding":
			var binding rbacv1.ClusterRoleBinding
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
				return nil, fmt.Errorf("%s: %w", describe(object), err)
			}
			if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool {
				return s.Kind == rbacv1.ServiceAccountKind && s.Name == account && s.Namespace == namespace
			}) {
				granted = append(granted, grant{binding.RoleRef, object.GetNamespace()})
			}
		}
	}
	var rights []Right
	for _, g := range granted {
		rules, known := roles[g.role()]
		if !known {
			return nil, fmt.Errorf("%s %s: expected it among the manifests, because it is bound to %s/%s", g.ref.Kind, g.ref.Name, namespace, account)
		}
		for _, rule := range rules {
			rights = append(rights, expand(rule, g.namespace)...)
		}
	}
	slices.SortFunc(rights, func(a, b Right) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(rights), nil
}

type grant struct {
	ref       rbacv1.RoleRef
	namespace string
}

func (g grant) role() string {
	if g.ref.Kind == "Role" {
		return "Role/" + g.namespace + "/" + g.ref.Name
	}
	return "ClusterRole//" + g.ref.Name
}

func expand(rule rbacv1.PolicyRule, namespace string) []Right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					rights = append(rights, Right{Namespace: namespace, Group: group, Resource: resource, Name: name, Verb: verb})
				}
			}
		}
	}
	return rights
}

// Unused are the rights that no request needed. A right in every namespace is not needed by a request that a narrower one allows.
func Unused(rights []Right, events []AuditEvent) []Right {
	used := map[Right]bool{}
	for _, e := range events {
		narrow := false
		for _, right := range rights {
			if right.Namespace != "" && right.allows(e) {
				used[right], narrow = true, true
			}
		}
		for _, right := range rights {
			if !narrow && right.allows(e) {
				used[right] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(rights), func(r Right) bool { return used[r] })
}

// Refused are the requests that were answered 403, each kind once. Only a namespace that is being deleted may refuse what RBAC allows.
func Refused(events []AuditEvent) []string {
	var refused []string
	for _, e := range events {
		if e.ResponseStatus.Code != codeForbidden || strings.Contains(e.ResponseStatus.Message, terminating) {
			continue
		}
		refused = append(refused, fmt.Sprintf("%s %s.%s in %q: %s", e.Verb, e.ObjectRef.resource(), e.ObjectRef.APIGroup, e.ObjectRef.Namespace, e.ResponseStatus.Message))
	}
	slices.Sort(refused)
	return slices.Compact(refused)
}
