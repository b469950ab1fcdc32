package conformance

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/test/harness"
)

const slowGoal = harness.TakePrefix + "8s"

// against are the options for a harness in this process.
func against(t *testing.T, h *harness.Harness) Options {
	t.Helper()
	scheme := "https"
	if h.Scheme == wire.SchemeHTTP {
		scheme = "http"
	}
	target, err := url.Parse(scheme + "://" + h.Address)
	require.NoError(t, err)
	return Options{
		Target: target, Identity: h.Identity, Root: harness.Root, GoalQuick: "quick", GoalSlow: slowGoal,
		Restart: func(context.Context) error {
			h.Stop()
			h.Boot()
			return nil
		},
		Drain: func(context.Context) error {
			h.Terminate(time.Hour)
			return nil
		},
		Start: startsAsItShould(h),
	}
}

// startsAsItShould stands for a command that starts a harness: it ends when the environment is not its Pod's.
func startsAsItShould(h *harness.Harness) func(context.Context, []string) error {
	return func(ctx context.Context, environ []string) error {
		if why := contradicts(h, environ); why != "" {
			return assert.AnError
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// contradicts tells which part of an environment is not the Pod's.
func contradicts(h *harness.Harness, environ []string) string {
	found := map[string]string{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		found[name] = value
	}
	switch {
	case found["POD_NAMESPACE"] == "" || found["POD_NAME"] == "" || found["POD_UID"] == "":
		return "missing"
	case found["POD_NAME"] != h.Identity.PodName:
		return "hostname"
	case len(found["HEARTH_DELIVERY_TOKEN"]) < challenge.MinRootBytes:
		return "token"
	default:
		return ""
	}
}

func run(t *testing.T, o Options) Report {
	t.Helper()
	kit, err := New(o)
	require.NoError(t, err)
	report, err := kit.Run(t.Context())
	require.NoError(t, err)
	return report
}

// passes wants every case to pass, or not to apply for a reason that is expected.
func passes(t *testing.T, r Report, notApplicable string) {
	t.Helper()
	for _, c := range r.Results {
		if c.Verdict == NotApplicable && notApplicable != "" {
			assert.Contains(t, c.Why, notApplicable, c.ID)
			continue
		}
		assert.Equal(t, Pass, c.Verdict, "%s %s: %s", c.ID, c.Title, c.Why)
	}
	assert.Len(t, r.Results, len(Cases()))
	assert.True(t, r.Conforms(false))
}

// R57: the kit is green against our own server and journal.
func TestOurServerPasses(t *testing.T) {
	t.Parallel()
	for scheme, notApplicable := range map[wire.Scheme]string{wire.SchemeHTTP: "https targets only", wire.SchemeHTTPS: ""} {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			passes(t, run(t, against(t, harness.Start(t, harness.Options{Scheme: scheme}))), notApplicable)
		})
	}
}
