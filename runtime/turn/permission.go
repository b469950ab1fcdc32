package turn

import (
	"encoding/json"

	"github.com/coder/acp-go-sdk"
	"github.com/hearthdev/hearth/runtime/router"
)

// decide answers a permission question by the kind of the options, never by their position, and never for longer than once
// (R52). Where the agent offers no such option the answer is "cancelled".
func (p Policy) decide(r *router.Request) acp.RequestPermissionOutcome {
	kind := acp.PermissionOptionKindRejectOnce
	if p == Allow {
		kind = acp.PermissionOptionKindAllowOnce
	}
	var question struct {
		Options []acp.PermissionOption `json:"options"`
	}
	if json.Unmarshal(r.Params, &question) == nil {
		for _, o := range question.Options {
			if o.Kind == kind {
				return acp.NewRequestPermissionOutcomeSelected(o.OptionId)
			}
		}
	}
	return acp.NewRequestPermissionOutcomeCancelled()
}
