// Command rbac makes the rights of a controller that serves a few namespaces only out of those of one that serves all, so that
// RBAC has one source: the +kubebuilder:rbac markers.
//
//	go run ./hack/rbac config/rbac/role.yaml config/namespaced
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	header = "# Made from config/rbac/role.yaml by `make generate`.\n"
	// grantName is the Role that is bound in each namespace; another than that of the controller's own namespace, which may be served too.
	grantName = "hearth-agents"
	fileMode  = 0o644
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "rbac: expected two arguments: role.yaml as controller-gen makes it, and the directory to write to")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "rbac:", err)
		os.Exit(1)
	}
}

func generate(from, to string) error {
	text, err := os.ReadFile(from) //nolint:gosec // named by the caller
	if err != nil {
		return err
	}
	all, err := clusterRole(text)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	cluster, grant, err := split(all)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	for file, object := range map[string]any{"clusterrole.yaml": cluster, filepath.Join("grant", "role.yaml"): grant} {
		content, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, file), append([]byte(header), content...), fileMode); err != nil { //nolint:gosec // a file of the repository, for everybody
			return err
		}
	}
	return nil
}

// clusterRole is the only one in a file.
func clusterRole(text []byte) (*rbacv1.ClusterRole, error) {
	var found []*rbacv1.ClusterRole
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(document, &role); err != nil {
			return nil, err
		}
		if role.Kind == "ClusterRole" {
			found = append(found, &role)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("expected one ClusterRole, there are %d", len(found))
	}
	return found[0], nil
}

// split leaves the rules about cluster-scoped resources in the ClusterRole, and puts the others into a Role without a namespace:
// it is applied to each served one.
func split(all *rbacv1.ClusterRole) (*rbacv1.ClusterRole, *rbacv1.Role, error) {
	cluster := &rbacv1.ClusterRole{TypeMeta: all.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: all.Name}}
	grant := &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: all.APIVersion, Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: grantName}}
	for _, rule := range all.Rules {
		namespaced, err := scope(rule)
		if err != nil {
			return nil, nil, err
		}
		if namespaced {
			grant.Rules = append(grant.Rules, rule)
		} else {
			cluster.Rules = append(cluster.Rules, rule)
		}
	}
	return cluster, grant, nil
}
