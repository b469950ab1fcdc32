// Package cron reads the schedule of a Scheduled Agent and tells its times (R34; SPEC.md, Scheduled). It is pure, and imports
// nothing of ours, so that admission can ask it.
package cron

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// maxSkipped bounds how many readings of a clock are passed over in a row because they do not come, or came before. No zone has
	// skipped or repeated more than a day.
	maxSkipped = 2 * 24 * 60
	// maxShown bounds what a message repeats of a schedule.
	maxShown = 160
)

const expectedCron = "expected five fields (minute, hour, day of month, month, day of week) or one of @hourly, @daily, @weekly, @monthly, @yearly"

var shorthands = []string{"@hourly", "@daily", "@weekly", "@monthly", "@yearly"}

// Error is what is wrong with a schedule: the field of an Agent, and what was expected there.
type Error struct{ Field, Expected string }

func (e *Error) Error() string { return e.Field + ": " + e.Expected }

// Times are the times of a schedule. It names readings of the clock on the wall of its zone: a reading that does not come, in the
// hour that summer time skips, is no time of it; one that comes twice is one time, the first.
type Times struct {
	readings *cron.SpecSchedule
	zone     *time.Location
}

// Parse reads spec.schedule.cron and spec.schedule.timeZone of an Agent; an empty zone is UTC. Errors are *Error.
func Parse(spec, timeZone string) (Times, error) {
	zone, err := location(timeZone)
	if err != nil {
		return Times{}, err
	}
	if err := refused(spec); err != nil {
		return Times{}, err
	}
	parsed, err := cron.ParseStandard(spec)
	if err != nil {
		return Times{}, wrong(fmt.Sprintf("%s: %.*s", expectedCron, maxShown, err.Error()))
	}
	readings, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return Times{}, wrong(expectedCron)
	}
	readings.Location = time.UTC // stepped through as readings; instant finds the moment
	if readings.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Times{}, wrong("expected a date that exists, this one never comes")
	}
	return Times{readings, zone}, nil
}

// refused: the library reads more than we mean.
func refused(spec string) error {
	switch {
	case strings.ContainsFunc(spec, func(r rune) bool { return r < ' ' || r > '~' }):
		return wrong(expectedCron + ", in printable ASCII on one line")
	case strings.Contains(spec, "TZ="):
		return wrong(expectedCron + ", without a time zone: it belongs in spec.schedule.timeZone")
	case strings.HasPrefix(strings.TrimSpace(spec), "@") && !slices.Contains(shorthands, spec):
		return wrong(expectedCron + "; times are readings of a clock, so there is no @every and no @reboot")
	default:
		return nil
	}
}

func wrong(expected string) error { return &Error{"spec.schedule.cron", expected} }

// location: "Local" would be the controller's own zone, which says nothing to who writes an Agent.
func location(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, &Error{"spec.schedule.timeZone", fmt.Sprintf("expected the name of an IANA time zone, such as Europe/Berlin, there is no %.63q", name)}
	}
	return zone, nil
}

// Next is the first time after a moment; zero when there is none in the next five years.
func (t Times) Next(after time.Time) time.Time {
	reading := readingOf(after.In(t.zone))
	for range maxSkipped {
		if reading = t.readings.Next(reading); reading.IsZero() {
			return time.Time{}
		}
		if at, comes := t.instant(reading); comes && at.After(after) {
			return at
		}
	}
	return time.Time{}
}

// Last is the last time in (after, until], zero when there is none. It is found by halves, so that years of minutes are no work.
func (t Times) Last(after, until time.Time) time.Time {
	last := t.Next(after)
	if last.IsZero() || last.After(until) {
		return time.Time{}
	}
	for low, high := last, until; high.Sub(low) > time.Second; {
		middle := low.Add(high.Sub(low) / 2)
		if next := t.Next(middle); !next.IsZero() && !next.After(until) {
			low, last = next, next
		} else {
			high = middle
		}
	}
	return last
}

// In is a time as the schedule's clock shows it.
func (t Times) In(at time.Time) time.Time { return at.In(t.zone) }

// instant is the first moment at which the zone's clock shows a reading; it may never come.
func (t Times) instant(reading time.Time) (at time.Time, comes bool) {
	at = time.Date(reading.Year(), reading.Month(), reading.Day(), reading.Hour(), reading.Minute(), 0, 0, t.zone)
	if !readingOf(at).Equal(reading) {
		return time.Time{}, false
	}
	start, _ := at.ZoneBounds()
	if start.IsZero() {
		return at, true
	}
	_, offset := start.Add(-time.Nanosecond).Zone()
	earlier := reading.Add(-time.Duration(offset) * time.Second).In(t.zone)
	if earlier.Before(at) && readingOf(earlier).Equal(reading) {
		return earlier, true
	}
	return at, true
}

// readingOf is what a clock shows, to the second, as if it were UTC: there each reading comes once.
func readingOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}
