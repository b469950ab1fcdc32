package admission

import (
	"errors"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/schedule/cron"
)

// scheduleRefusals are the reasons why a schedule has no times (R34).
func scheduleRefusals(s *v1alpha1.Schedule) []Refusal {
	if s == nil {
		return nil
	}
	_, err := cron.Parse(s.Cron, s.TimeZone)
	var wrong *cron.Error
	if errors.As(err, &wrong) {
		return []Refusal{{codeInvalid, wrong.Field, wrong.Expected}}
	}
	return nil
}
