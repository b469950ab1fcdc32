package turn

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

// However many tool calls an agent tells of, what is kept of them is bounded, and no more of them failed than there were.
func TestToolCallsAreCountedUpToABound(t *testing.T) {
	c := newCollector(questions{policy: Deny}, profile{}, Text, Limits{})
	for n := range knownTools + 100 {
		c.take(update{SessionUpdate: "tool_call", ToolCallID: strconv.Itoa(n), Status: "failed"})
		c.take(update{SessionUpdate: "tool_call_update", ToolCallID: strconv.Itoa(n), Status: "failed"})
	}
	assert.Len(t, c.calls, knownTools)
	assert.Equal(t, knownTools, c.tools.Calls)
	assert.Equal(t, knownTools, c.tools.Failed)
}
