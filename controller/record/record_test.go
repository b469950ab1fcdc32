package record_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/record"
	"github.com/hearthdev/hearth/delivery"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

var at = time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC)

func ending() delivery.Ending {
	return delivery.Ending{
		Outcome: wire.OutcomeFailed, Reason: "LimitReached", Message: "its turn limit", Output: &wire.Output{MediaType: "text/plain", Value: strings.Repeat("o", 100<<10)},
		Usage:      &wire.Usage{InputTokens: ptr.To[int64](0), TotalTokens: ptr.To[int64](7), Cost: &wire.Cost{Amount: "0.5", Currency: "USD"}},
		Truncation: &wire.Truncation{OriginalBytes: 1 << 20, SHA256: "abc"}, CompletionTime: at, RecordedAt: at.Add(time.Second), DurationSeconds: ptr.To[int64](9),
	}
}

// R27, I2: everything that an ending holds is in the status, and what an earlier, larger ending held is not.
func TestPutLeavesNothingOut(t *testing.T) {
	var s hearthv1.AgentRunStatus
	e := ending()
	record.Put(&s, e)
	micro := func(t time.Time) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(t.Truncate(time.Microsecond))) }
	assert.Equal(t, hearthv1.AgentRunStatus{
		Outcome: "Failed", Reason: "LimitReached", Message: "its turn limit", Output: &hearthv1.Output{MediaType: "text/plain", Value: e.Output.Value},
		Usage:      &hearthv1.Usage{InputTokens: ptr.To[int64](0), TotalTokens: ptr.To[int64](7), Cost: &hearthv1.Cost{Amount: "0.5", Currency: "USD"}},
		Truncation: &hearthv1.Truncation{OriginalBytes: 1 << 20, SHA256: "abc"}, CompletionTime: micro(at), RecordedAt: micro(at.Add(time.Second)), DurationSeconds: ptr.To[int64](9),
	}, s)
	record.Put(&s, delivery.Ending{Reason: "PodFailed", Message: "m", Data: "foreign", CompletionTime: at})
	assert.Equal(t, hearthv1.AgentRunStatus{Reason: "PodFailed", Message: "m", TerminationData: "foreign", CompletionTime: micro(at)}, s)
}

// Fault row 56: a record that is refused as too large or invalid is cut, whatever it holds, and not tried for ever.
func TestARefusedRecordIsCutAndNotTriedForEver(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "hearth.dev", Kind: "AgentRun"}, "run", nil)
	large := apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	for name, refusal := range map[string]error{"invalid": invalid, "too large": large} {
		t.Run(name, func(t *testing.T) {
			e := ending()
			var tried []delivery.Ending
			require.NoError(t, record.Write(&e, func(e *delivery.Ending) error {
				tried = append(tried, *e)
				if e.Output != nil {
					return refusal
				}
				return nil
			}))
			require.Len(t, tried, 3)
			assert.Contains(t, tried[2].Message, "cut to fit")
			assert.Equal(t, delivery.Reason("LimitReached"), tried[2].Reason)
			assert.Equal(t, ending(), e, "the caller's is as it was")

			times := 0
			require.ErrorIs(t, record.Write(&e, func(*delivery.Ending) error { times++; return refusal }), refusal)
			assert.Equal(t, 3, times)
		})
	}
}

// Another failure, or a refusal of a living run's status, has nothing to cut.
func TestOnlyARefusedRecordIsWrittenAgain(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "agentruns"}, "run", nil)
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "AgentRun"}, "run", nil)
	e, times := ending(), 0
	require.ErrorIs(t, record.Write(&e, func(*delivery.Ending) error { times++; return conflict }), conflict)
	require.ErrorIs(t, record.Write(nil, func(*delivery.Ending) error { times++; return invalid }), invalid)
	assert.Equal(t, 2, times)
}
