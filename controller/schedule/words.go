package schedule

import (
	"fmt"
	"time"
)

// String says what was missed, for an Event.
func (m Missed) String() string {
	first, last := m.First.UTC().Format(time.RFC3339), m.Last.UTC().Format(time.RFC3339)
	switch {
	case m.More:
		return fmt.Sprintf("more than %d times from %s to %s have no run: %.512s", m.Count, first, last, m.Why)
	case m.Count > 1:
		return fmt.Sprintf("%d times from %s to %s have no run: %.512s", m.Count, first, last, m.Why)
	default:
		return fmt.Sprintf("%s has no run: %.512s", first, m.Why)
	}
}
