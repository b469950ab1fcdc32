package doctor

import (
	"reflect"
	"slices"
	"strings"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// kinds are our resources by their kinds, with the type that this program knows them as.
var kinds = []struct {
	kind, resource string
	known          reflect.Type
}{
	{"Agent", "agents", reflect.TypeFor[hearthv1.Agent]()},
	{"AgentRun", "agentruns", reflect.TypeFor[hearthv1.AgentRun]()},
}

// pruned are the fields of a type, as paths, that the schema does not have: the API server drops what is written there. Types that are
// not ours are Kubernetes' own, and not looked into.
func pruned(known reflect.Type, schema Schema) []string {
	var lost []string
	lookInto(known, schema, "", &lost)
	slices.Sort(lost)
	return lost
}

func lookInto(known reflect.Type, schema Schema, path string, lost *[]string) {
	for known.Kind() == reflect.Pointer {
		known = known.Elem()
	}
	if known.Kind() == reflect.Slice {
		lookInto(known.Elem(), below(schema, "items"), path+"[]", lost)
		return
	}
	if known.Kind() != reflect.Struct || known.PkgPath() != reflect.TypeFor[hearthv1.Agent]().PkgPath() || keepsAll(schema) {
		return
	}
	properties := below(schema, "properties")
	for i := range known.NumField() {
		field := known.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" || path == "" && name == "metadata" {
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		if _, there := properties[name]; !there {
			*lost = append(*lost, at)
			continue
		}
		lookInto(field.Type, below(properties, name), at, lost)
	}
}

func keepsAll(schema Schema) bool {
	keep, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool)
	return keep
}

func below(schema Schema, name string) Schema {
	switch s := schema[name].(type) {
	case map[string]any:
		return s
	case Schema:
		return s
	default:
		return nil
	}
}
