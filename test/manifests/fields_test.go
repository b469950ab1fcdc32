package manifests_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// schema is that of a CRD; kubectl explain shows it.
type schema = apiextensionsv1.JSONSchemaProps

var crds = map[string]string{"Agent": "config/crd/hearth.dev_agents.yaml", "AgentRun": "config/crd/hearth.dev_agentruns.yaml"}

func crdOf(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := as[apiextensionsv1.CustomResourceDefinition](t, read(t, crds[kind])[0])
	require.Len(t, crd.Spec.Versions, 1)
	return crd
}

// fields visits each field of ours: not what Kubernetes defines, which are metadata and the Pod template.
func fields(path string, s schema, visit func(path string, s schema)) {
	for name, property := range s.Properties {
		visit(path+"."+name, property)
		if name != "metadata" && name != "template" {
			fields(path+"."+name, property, visit)
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		fields(path+"[]", *s.Items.Schema, visit)
	}
}

// lacks lists what a field's schema fails to say.
func lacks(path string, s schema) (problems []string) {
	name := path[strings.LastIndex(path, ".")+1:]
	if strings.TrimSpace(s.Description) == "" {
		problems = append(problems, "a description")
	}
	// A name such as durationSeconds says the unit only to who reads the name.
	if s.Type == "integer" && strings.HasSuffix(name, "Seconds") || strings.HasPrefix(name, "ttlSeconds") {
		if !strings.Contains(strings.ReplaceAll(s.Description, name, ""), "seconds") {
			problems = append(problems, "which seconds it counts")
		}
	}
	if !strings.HasPrefix(path, ".status") {
		return problems
	}
	switch s.Type { //nolint:exhaustive // a string, as the schema has it; the others have no length
	case "string":
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format == "" {
			problems = append(problems, "a maximum length")
		}
	case "array":
		if s.MaxItems == nil {
			problems = append(problems, "a maximum of items")
		}
	case "object":
		if s.AdditionalProperties != nil && s.MaxProperties == nil {
			problems = append(problems, "a maximum of properties")
		}
	}
	return problems
}

// R12: kubectl explain says of each field what it means, and whatever the controller writes is bounded.
func TestEveryFieldIsExplainedAndEveryStatusIsBounded(t *testing.T) {
	for kind := range crds {
		visited := 0
		fields("", *crdOf(t, kind).Spec.Versions[0].Schema.OpenAPIV3Schema, func(path string, s schema) {
			if path == ".metadata" {
				return // Kubernetes's own, which the API server describes
			}
			visited++
			assert.Empty(t, lacks(path, s), "%s%s lacks this", kind, path)
		})
		assert.Greater(t, visited, 40, kind)
	}
}

// What the test above would say of a field that falls short.
func TestAFieldThatFallsShortIsFound(t *testing.T) {
	length, said := int64(64), "word is why."
	for name, c := range map[string]struct {
		path string
		s    schema
		want []string
	}{
		"fine":                    {".status.word", schema{Type: "string", MaxLength: &length, Description: said}, nil},
		"not explained":           {".spec.word", schema{Type: "string"}, []string{"a description"}},
		"an unbounded string":     {".status.word", schema{Type: "string", Description: said}, []string{"a maximum length"}},
		"an unbounded list":       {".status.words", schema{Type: "array", Description: said}, []string{"a maximum of items"}},
		"an unbounded map":        {".status.words", schema{Type: "object", Description: said, AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{}}, []string{"a maximum of properties"}},
		"a time has its length":   {".status.at", schema{Type: "string", Format: "date-time", Description: said}, nil},
		"seconds of something":    {".spec.waitSeconds", schema{Type: "integer", Description: "waitSeconds is how many seconds it waits."}, nil},
		"seconds of nobody knows": {".spec.waitSeconds", schema{Type: "integer", Description: "waitSeconds bounds it."}, []string{"which seconds it counts"}},
		"and of a ttl":            {".spec.ttlSecondsAfterEnd", schema{Type: "integer", Description: "ttlSecondsAfterEnd is how long."}, []string{"which seconds it counts"}},
	} {
		assert.Equal(t, c.want, lacks(c.path, c.s), name)
	}
}

// What kubectl get shows, and by which names; wide ones only with -o wide.
func TestColumnsAndNames(t *testing.T) {
	for kind, want := range map[string]struct {
		short         string
		columns, wide []string
	}{
		"AgentRun": {"arun", []string{"Agent", "Phase", "Reason", "Target", "Attempt", "ACP", "Age", "Duration"}, []string{"Backend", "Message"}},
		"Agent":    {"hagent", []string{"Mode", "Ready", "Reason", "Standing", "Wanted", "Busy", "Next", "Age"}, []string{"Queued", "Recasts", "Backend", "Message"}},
	} {
		crd := crdOf(t, kind)
		assert.Equal(t, []string{want.short}, crd.Spec.Names.ShortNames)
		assert.Equal(t, []string{"hearth"}, crd.Spec.Names.Categories)
		root := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		var columns, wide []string
		for _, c := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			if c.Priority == 0 {
				columns = append(columns, c.Name)
			} else {
				wide = append(wide, c.Name)
			}
			path, _, _ := strings.Cut(c.JSONPath, "[")
			if !strings.HasPrefix(path, ".metadata.") {
				assert.True(t, has(root, path), "%s has no %s", kind, path)
			}
		}
		assert.Equal(t, want.columns, columns)
		assert.Equal(t, want.wide, wide)
	}
}

func has(root schema, path string) bool {
	found := []string{}
	fields("", root, func(path string, _ schema) { found = append(found, path) })
	return slices.Contains(found, path)
}
