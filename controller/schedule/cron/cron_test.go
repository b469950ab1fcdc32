package cron

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // as cmd/controller: the zones are in the binary

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func parsed(t require.TestingT, spec, zone string) Times {
	times, err := Parse(spec, zone)
	require.NoError(t, err)
	return times
}

func at(t require.TestingT, rfc3339 string) time.Time {
	moment, err := time.Parse(time.RFC3339, rfc3339)
	require.NoError(t, err)
	return moment
}

// R34; SPEC.md, Scheduled: what is read, and what is refused with the field and what was expected.
func TestASchedulesFieldsAreReadOrRefusedByName(t *testing.T) {
	for _, good := range []string{"* * * * *", "0 6 * * 1-5", "*/15 0,12 1 JAN-JUN MON", "0 0 29 2 *", "@hourly", "@daily", "@weekly", "@monthly", "@yearly", "  5  4 * * * ", "0 0 ? * ?"} {
		_, err := Parse(good, "Europe/Berlin")
		assert.NoError(t, err, good)
	}
	for name, c := range map[string]struct{ spec, zone, field, says string }{
		"empty":               {"", "", "spec.schedule.cron", "expected five fields"},
		"seconds":             {"0 0 6 * * *", "", "spec.schedule.cron", "found 6"},
		"four fields":         {"0 6 * *", "", "spec.schedule.cron", "found 4"},
		"out of range":        {"60 6 * * *", "", "spec.schedule.cron", "above maximum (59)"},
		"Sunday as 7":         {"0 6 * * 7", "", "spec.schedule.cron", "above maximum (6)"},
		"a step of nothing":   {"*/0 * * * *", "", "spec.schedule.cron", "step"},
		"TZ":                  {"TZ=Europe/Berlin 0 6 * * *", "", "spec.schedule.cron", "spec.schedule.timeZone"},
		"CRON_TZ":             {"CRON_TZ=Europe/Berlin 0 6 * * *", "", "spec.schedule.cron", "spec.schedule.timeZone"},
		"TZ and nothing else": {"TZ=0", "", "spec.schedule.cron", "spec.schedule.timeZone"},
		"an interval":         {"@every 1h", "", "spec.schedule.cron", "no @every"},
		"at boot":             {"@reboot", "", "spec.schedule.cron", "no @reboot"},
		"another shorthand":   {"@midnight", "", "spec.schedule.cron", "@daily"},
		"two lines":           {"0 6 * *\n1", "", "spec.schedule.cron", "one line"},
		"not ASCII":           {"0 6 * * ١", "", "spec.schedule.cron", "printable ASCII"},
		"a date that is none": {"0 0 30 2 *", "", "spec.schedule.cron", "never comes"},
		"no such zone":        {"0 6 * * *", "Europe/Bärlin", "spec.schedule.timeZone", "IANA"},
		"an offset":           {"0 6 * * *", "+02:00", "spec.schedule.timeZone", "IANA"},
		"the controller's":    {"0 6 * * *", "Local", "spec.schedule.timeZone", "IANA"},
		"a path":              {"0 6 * * *", "../../etc/passwd", "spec.schedule.timeZone", "IANA"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.spec, c.zone)
			var wrong *Error
			require.ErrorAs(t, err, &wrong)
			assert.Equal(t, c.field, wrong.Field)
			assert.Contains(t, wrong.Expected, c.says)
		})
	}
	_, err := Parse(strings.Repeat("0", 200)+"x 0 0 0 0", "")
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 400, "a message is bounded")
}

// SPEC.md, Scheduled: readings of a clock. One that is skipped has no run, one that comes twice has one, the first.
func TestTimesWhereSummerTimeBeginsAndEnds(t *testing.T) {
	for name, c := range map[string]struct {
		spec, zone, after string
		want              []string
	}{
		"Berlin skips 02:30 once": {"30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00+01:00",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00"}},
		"Berlin's hour from 2 is not there": {"*/30 1-3 29 3 *", "Europe/Berlin", "2026-03-29T00:00:00+01:00",
			[]string{"2026-03-29T01:00:00+01:00", "2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"}},
		"Berlin's 02:30 that comes twice": {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		"every half hour through the hour that comes twice": {"*/30 * * * *", "Europe/Berlin", "2026-10-25T01:30:00+02:00",
			[]string{"2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T03:00:00+01:00", "2026-10-25T03:30:00+01:00"}},
		"asked in its second pass": {"30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", []string{"2026-10-26T02:30:00+01:00"}},
		"Lord Howe goes on by half an hour": {"*/10 2 * * *", "Australia/Lord_Howe", "2026-10-04T01:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-04T02:40:00+11:00", "2026-10-04T02:50:00+11:00", "2026-10-05T02:00:00+11:00"}},
		"and has its 03:00 that day": {"0 3 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T03:00:00+11:00", "2026-10-05T03:00:00+11:00"}},
		"Lord Howe goes back by half an hour": {"15,45 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:00:00+11:00",
			[]string{"2026-04-05T01:15:00+11:00", "2026-04-05T01:45:00+11:00", "2026-04-06T01:15:00+10:30"}},
		"Cairo skips midnight": {"@daily", "Africa/Cairo", "2026-04-23T12:00:00+02:00", []string{"2026-04-25T00:00:00+03:00"}},
		"Samoa skipped a day":  {"0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", []string{"2011-12-31T09:00:00+14:00"}},
		"UTC has none of it":   {"30 2 * * *", "", "2026-03-28T12:00:00Z", []string{"2026-03-29T02:30:00Z", "2026-03-30T02:30:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			times, now := parsed(t, c.spec, c.zone), at(t, c.after)
			var got []string
			for range c.want {
				now = times.Next(now)
				got = append(got, now.Format(time.RFC3339))
			}
			assert.Equal(t, c.want, got)
		})
	}
}

// The same as a reader with a wall clock and a pencil would find: each minute, look at the clock, tick off each reading once.
func TestTimesAreWhatTheClockOnTheWallShows(t *testing.T) {
	zones := map[string][]string{ // a day with a change, and its neighbours
		"Europe/Berlin": {"2026-03-29", "2026-10-25"}, "Australia/Lord_Howe": {"2026-04-05", "2026-10-04"}, "Africa/Cairo": {"2026-04-24", "2026-10-30"},
		"America/St_Johns": {"2026-03-08", "2026-11-01"}, "Pacific/Apia": {"2011-12-30"}, "America/Sao_Paulo": {"2018-11-04", "2018-02-18"}, "": {"2026-02-28"},
	}
	minutes := []string{"*", "0", "30", "*/15", "7-9", "59"}
	hours := []string{"*", "0", "1", "2", "3", "1-3", "23", "*/2"}
	days := []string{"*", "*", "*", "29", "4", "1-15"}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(slices.Sorted(func(yield func(string) bool) {
			for name := range zones {
				if !yield(name) {
					return
				}
			}
		})).Draw(t, "zone")
		day := at(t, rapid.SampledFrom(zones[zone]).Draw(t, "day")+"T00:00:00Z")
		spec := strings.Join([]string{rapid.SampledFrom(minutes).Draw(t, "minute"), rapid.SampledFrom(hours).Draw(t, "hour"), rapid.SampledFrom(days).Draw(t, "day of month"), "*", "*"}, " ")
		times := parsed(t, spec, zone)
		begin, end := day.Add(-36*time.Hour), day.Add(60*time.Hour)
		start := begin.Add(time.Duration(rapid.IntRange(0, 36*3600).Draw(t, "second")) * time.Second)

		var want []time.Time
		seen := map[time.Time]bool{}
		for now := begin; !now.After(end); now = now.Add(time.Minute) {
			reading := readingOf(times.In(now))
			if seen[reading] {
				continue
			}
			seen[reading] = true
			if times.readings.Next(reading.Add(-time.Second)).Equal(reading) && now.After(start) {
				want = append(want, now)
			}
		}
		var got []time.Time
		for now := times.Next(start); !now.IsZero() && !now.After(end); now = times.Next(now) {
			got = append(got, now.UTC())
		}
		assert.Equal(t, want, got, spec)
		if last := times.Last(start, end); len(want) > 0 {
			assert.True(t, want[len(want)-1].Equal(last), "the last is %s", last)
		} else {
			assert.Zero(t, last)
		}
	})
}

// A controller that was away for years asks for the last time in a few dozen steps.
func TestTheLastTimeOfYearsOfMinutesIsFoundAtOnce(t *testing.T) {
	now := at(t, "2026-11-29T12:34:56Z")
	for _, spec := range []string{"* * * * *", "0 6 * * 1-5", "* * 1 1 *", "0 0 29 2 *"} {
		times, steps := parsed(t, spec, "Europe/Berlin"), 0
		for range 1000 {
			since := now.Add(-time.Duration(rand.N(int64(4 * 366 * 24 * time.Hour))))
			last := times.Last(since, now)
			if next := times.Next(since); next.After(now) {
				assert.Zero(t, last)
				continue
			}
			assert.True(t, last.After(since) && !last.After(now) && times.Next(last).After(now), "%s since %s: %s", spec, since, last)
			steps++
		}
		assert.NotZero(t, steps)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * *", "0 6 * * 1-5", "@hourly", "TZ=0", "@every 1h", "0 0 30 2 *", "*/0 * * * *", "1-99999999999999999999 * * * *", "0 0 * * MON-7"} {
		f.Add(seed, "Europe/Berlin")
	}
	f.Add("30 2 * * *", "Australia/Lord_Howe")
	from := time.Date(2026, 10, 24, 22, 11, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, spec, zone string) {
		if len(spec) > 256 || len(zone) > 64 { // the schema's
			return
		}
		times, err := Parse(spec, zone)
		if err != nil {
			var wrong *Error
			require.ErrorAs(t, err, &wrong)
			assert.Contains(t, wrong.Expected, "expected")
			return
		}
		now := from
		for range 3 {
			next := times.Next(now)
			if next.IsZero() {
				return
			}
			require.True(t, next.After(now))
			require.Zero(t, next.Second()+next.Nanosecond())
			require.True(t, times.Last(now, next).Equal(next))
			now = next
		}
	})
}
