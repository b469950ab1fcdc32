package deliver

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// busyWrites is how many runs of one Agent are told within busyAgain that all targets are busy: what moves the queue, of this Agent
	// and of others, needs the API server more.
	busyWrites = 4
	busyAgain  = time.Second
)

// budgets hold what each Agent may still spend on that.
type budgets struct {
	mu   sync.Mutex
	left map[types.NamespacedName]*rate.Limiter
}

func newBudgets() *budgets { return &budgets{left: map[types.NamespacedName]*rate.Limiter{}} }

// allow spends one write, if there is one.
func (b *budgets) allow(agent types.NamespacedName, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left[agent] == nil {
		b.left[agent] = rate.NewLimiter(busyWrites*rate.Every(busyAgain), busyWrites)
	}
	return b.left[agent].AllowN(now, 1)
}

// forget drops the budget of an Agent for which nothing waits.
func (b *budgets) forget(agent types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.left, agent)
}
