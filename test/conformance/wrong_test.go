package conformance

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const (
	// shortPatience is enough with a wrong runtime, which may never do what is waited for.
	shortPatience = 12 * time.Second
	// atOnce is how many runtimes are tried at once: they wait more than they work.
	atOnce = "16"
	// everySo is which part of the cases that a defect should not fail is run against it, unless HEARTH_SLOW is set.
	everySo = 8
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// R57: every case is failed by a defect; none is a test that cannot fail.
func TestEveryCaseIsFailedByADefect(t *testing.T) {
	failed, names := map[string]bool{}, map[string]bool{}
	for _, d := range defects() {
		assert.False(t, names[d.name], "two defects are named %s", d.name)
		names[d.name] = true
		for _, id := range strings.Fields(d.fails) {
			failed[id] = true
		}
	}
	for _, c := range Cases() {
		assert.True(t, failed[c.ID], "%s %s: no defect fails it", c.ID, c.Title)
	}
}

// R57: each defect fails the cases that it should, and no other.
func TestAWrongRuntimeFailsWhereItIsWrong(t *testing.T) {
	if raced {
		t.Skip("hundreds of runs, without the race detector in a process of their own: TestOurServerPasses has every case raced")
	}
	t.Parallel()
	for i, d := range defects() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			l := newLiar(t, d)
			o := against(t, l.house)
			o.Patience, o.Select = shortPatience, sample(d, i)
			if d.options != nil {
				d.options(l, &o)
			}
			failed, why := []string{}, map[string]string{}
			for _, c := range run(t, o).Results {
				if c.Verdict == Fail {
					failed = append(failed, c.ID)
					why[c.ID] = c.Why
				}
				assert.NotContains(t, c.Why, o.Root)
				assert.NotContains(t, c.Why, o.GoalSlow)
			}
			assert.ElementsMatch(t, strings.Fields(d.fails), failed, "%v", why)
		})
	}
}

// sample picks the cases to run against a defect: those that it fails, and a part of the others, another for each defect. Those that
// restart or drain take seconds, and only some defects show there.
func sample(d defect, number int) *regexp.Regexp {
	ids := strings.Fields(d.fails)
	for i, c := range Cases() {
		if all := os.Getenv("HEARTH_SLOW") != ""; (c.needs == nothing || d.boots) && (all || (i+number)%everySo == 0) && !slices.Contains(ids, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return regexp.MustCompile("^(?:" + strings.Join(ids, "|") + ")$")
}
