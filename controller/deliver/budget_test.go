package deliver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

// SPEC.md, Assign: a queue is told of four times a second for each Agent, whatever others have.
func TestAQueueIsToldOfAFewTimesASecond(t *testing.T) {
	b, now := newBudgets(), time.Unix(1000, 0)
	one, other := types.NamespacedName{Namespace: "team", Name: "one"}, types.NamespacedName{Namespace: "team", Name: "other"}
	told := func(agent types.NamespacedName, at time.Duration) (n int) {
		for range 100 {
			if b.allow(agent, now.Add(at)) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 4, told(one, 0))
	assert.Equal(t, 4, told(other, 0), "each has its own")
	assert.Equal(t, 4, told(one, busyAgain), "and when somebody looks again")
	assert.Equal(t, 4, told(one, time.Hour), "nothing is saved up")
	b.forget(one)
	assert.Len(t, b.left, 1, "an Agent without a queue costs no memory")
}
