package record

import (
	"maps"
	"slices"
)

// Pruned lists the fields, as paths such as status.delivery.session, that were sent and did not come back; of one that went as a whole
// only its own path. Both are JSON as it is decoded into maps. Only presence counts: what the API server defaults, or writes in another
// way, is there. Something empty may go, because it says nothing.
func Pruned(path string, sent, came any) []string {
	lost := map[string]bool{}
	prune(path, sent, came, lost)
	return slices.Sorted(maps.Keys(lost))
}

func prune(path string, sent, came any, lost map[string]bool) {
	switch sent := sent.(type) {
	case nil:
	case map[string]any:
		there, isMap := came.(map[string]any)
		if !isMap && len(sent) > 0 {
			lost[path] = true
			return
		}
		for name, value := range sent {
			prune(path+"."+name, value, there[name], lost)
		}
	case []any:
		there, isList := came.([]any)
		if (!isList || len(there) < len(sent)) && len(sent) > 0 {
			lost[path] = true
			return
		}
		for i, value := range sent { // the API server keeps the order
			prune(path+"[]", value, there[i], lost)
		}
	default:
		if came == nil {
			lost[path] = true
		}
	}
}
