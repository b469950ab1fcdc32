package turn

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

func permission(id string, kinds ...string) string {
	var options []string
	for i, k := range kinds {
		options = append(options, fmt.Sprintf(`{"optionId":"o%d","name":"n","kind":%q}`, i, k))
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[` + strings.Join(options, ",") + `]}}`
}

// R52: by kind and never by position, and never for longer than once.
func TestThePolicyChoosesByKind(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		kinds  []string
		want   string
	}{
		{Deny, []string{"allow_always", "allow_once", "reject_always", "reject_once"}, "o3"},
		{Deny, []string{"reject_once", "allow_once"}, "o0"},
		{Deny, []string{"allow_once", "reject_always"}, "cancelled"},
		{Deny, nil, "cancelled"},
		{Allow, []string{"allow_always", "reject_once", "allow_once"}, "o2"},
		{Allow, []string{"allow_always", "reject_once"}, "cancelled"},
	} {
		t.Run(fmt.Sprint(c.policy, c.kinds), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, 0)
				s.runner.Policy = c.policy
				s.begin(t.Context(), Goal{Text: "g"})
				s.write(permission("7", c.kinds...))
				want := `{"outcome":{"outcome":"selected","optionId":"` + c.want + `"}}`
				if c.want == "cancelled" {
					want = `{"outcome":{"outcome":"cancelled"}}`
				}
				assert.JSONEq(t, want, string(s.read().Result))
				s.end("end_turn")
				<-s.done
			})
		})
	}
}

func TestAModeThatAsksNothingIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.begin(t.Context(), Goal{Text: "g"})
		s.update(`"sessionUpdate":"current_mode_update","currentModeId":"smart_approve"`)
		s.update(`"sessionUpdate":"current_mode_update","currentModeId":"auto"`)
		s.update(`"sessionUpdate":"current_mode_update","currentModeId":"auto"`)
		s.update(`"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"x"}`)
		s.update(`"sessionUpdate":7`)
		s.say("x")
		s.end("end_turn")
		assert.Equal(t, []string{
			`the agent's mode "auto" asks for no permission, so the policy Deny decided nothing`,
			"the agent said something that is not text; it is left out of the output",
			"an update of the agent could not be understood",
		}, (<-s.done).envelope.Warnings)
	})
}
