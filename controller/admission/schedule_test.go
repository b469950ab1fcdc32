package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// R34: what a schedule says wrong is refused with the field, when the Agent is made.
func TestAScheduleThatHasNoTimesIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		schedule v1alpha1.Schedule
		field    string
	}{
		"good":        {v1alpha1.Schedule{Cron: "0 6 * * 1-5", TimeZone: "Europe/Berlin"}, ""},
		"no cron":     {v1alpha1.Schedule{Cron: "every morning"}, "spec.schedule.cron"},
		"no zone":     {v1alpha1.Schedule{Cron: "0 6 * * *", TimeZone: "CEST"}, "spec.schedule.timeZone"},
		"no such day": {v1alpha1.Schedule{Cron: "0 6 31 4 *"}, "spec.schedule.cron"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := reviewer()
			agent.Spec.Schedule = &c.schedule
			refusals := AgentRefusals(agent)
			if c.field == "" {
				assert.Empty(t, refusals)
				return
			}
			require.Len(t, refusals, 1)
			assert.Equal(t, c.field, refusals[0].Field)
			assert.Equal(t, codeInvalid, refusals[0].Code)
		})
	}
}
