package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/admission"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// SPEC.md, Names; R23: a run of any time of a Scheduled Agent of the longest name can be named after both, and its Pod, Service, Sandbox
// and host as it is. Ten digits outlast every time that a resource can hold.
func TestARunOfAnyTimeOfTheLongestNamedAgentHasAName(t *testing.T) {
	agent := nightly(func(a *v1alpha1.Agent) { a.Name = strings.Repeat("a", v1alpha1.MaxAgentName) })
	assert.Empty(t, admission.AgentRefusals(agent), "the longest name that is admitted")
	for digits, at := range map[string]time.Time{
		"00000000":   time.Unix(0, 0),
		"29881950":   time.Date(2026, 10, 25, 8, 30, 0, 0, time.UTC),
		"99999999":   time.Unix(60*99999999, 0),
		"100000000":  time.Unix(60*100000000, 0),
		"4223370240": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		run, refusals := runOf(agent, at)
		assert.Empty(t, refusals)
		assert.Empty(t, validation.IsDNS1035Label(run.Name), run.Name)
		assert.Empty(t, validation.IsValidLabelValue(run.Name), run.Name)
		assert.Equal(t, run.Name, wire.Hostname(run.Name))
		assert.Equal(t, agent.Name+"-"+digits, run.Name)
		assert.LessOrEqual(t, len(digits), 10, "names of up to ten digits are reserved for them")
	}
}
