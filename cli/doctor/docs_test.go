package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The table of docs/doctor.md is that of the code.
func TestTheDocumentedFindingsAreTheCodes(t *testing.T) {
	const file, mark = "../../docs/doctor.md", "<!-- go test ./cli/doctor -update writes the table -->\n"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	head, table, found := strings.Cut(string(text), mark)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(head+mark+Table()), 0o600))
		return
	}
	assert.Equal(t, Table(), table, "go test ./cli/doctor -update writes it")
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are a document's, as GitHub makes them of its headings.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../" + file) //nolint:gosec // a file of this repository
	require.NoError(t, err)
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if heading := strings.TrimLeft(line, "#"); len(heading) < len(line) && strings.HasPrefix(heading, " ") {
			found[strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")] = true
		}
	}
	return found
}

// Each section that a finding names exists.
func TestTheSectionsThatFindingsNameExist(t *testing.T) {
	for code, e := range catalogue {
		file, anchor, _ := strings.Cut(e.See, "#")
		assert.True(t, anchors(t, file)[anchor], "%s names %s", code, e.See)
	}
}

// A file that a command applies is a file, and a folder one that kustomize takes: kubectl apply -f of such a folder fails at its
// kustomization.yaml. All that the code, and so the findings, can say is read, and what the documentation says of it.
func TestTheFilesThatCommandsNameAreOfTheirKind(t *testing.T) {
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	sources = slices.DeleteFunc(sources, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	named := 0
	for _, source := range append(sources, "testdata/findings.txt", "../../docs/doctor.md") {
		text, err := os.ReadFile(source) //nolint:gosec // a file of this repository
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`kubectl apply[^\n#]* -([kf]) ([\w./-]+)`).FindAllStringSubmatch(string(text), -1) {
			named++
			if m[1] == "k" {
				assert.FileExists(t, "../../"+m[2]+"/kustomization.yaml", "%s: %s", source, m[0])
			} else {
				assert.FileExists(t, "../../"+m[2], "%s: %s", source, m[0])
			}
		}
	}
	assert.Greater(t, named, 10)
}

// What is asked about the controller is what config/rbac grants it, no more and no less.
func TestTheControllersRightsAreThoseOfConfig(t *testing.T) {
	text, err := os.ReadFile("../../config/rbac/role.yaml")
	require.NoError(t, err)
	want := map[string]bool{}
	for i, document := range strings.Split(strings.TrimPrefix(string(text), "---\n"), "\n---\n") {
		var role rbacv1.Role
		require.NoError(t, yaml.Unmarshal([]byte(document), &role))
		for _, rule := range role.Rules {
			for _, r := range rights(rule, i == 1) {
				want[r.Namespace+": "+r.String()] = true
			}
		}
	}
	got := map[string]bool{}
	for _, r := range controllersRights("", "system") {
		got[r.Namespace+": "+r.String()] = true
	}
	delete(want, "system: create events") // of its lease, about which it may be silent
	assert.Equal(t, want, got)
}

func rights(rule rbacv1.PolicyRule, ofSystem bool) (all []Right) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, named := range rule.Resources {
			resource, subresource, _ := strings.Cut(named, "/")
			for _, verb := range rule.Verbs {
				for _, name := range names {
					r := Right{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name}
					if ofSystem {
						r.Namespace = "system"
					}
					all = append(all, r)
				}
			}
		}
	}
	return all
}
