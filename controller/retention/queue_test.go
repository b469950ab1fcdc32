package retention

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// R46: a record that waits for its end is an entry in the queue: no goroutine, no timer of its own, and little memory.
func TestTenThousandRecordsThatWaitCostLittle(t *testing.T) {
	const records = 10_000
	requests := make([]reconcile.Request, records)
	for i := range requests {
		requests[i].NamespacedName = types.NamespacedName{Namespace: "team", Name: fmt.Sprintf("review-%05d", i)}
	}
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	for i, request := range requests {
		queue.AddAfter(request, 7*24*time.Hour+time.Duration(i)*time.Second)
	}
	each := int64(heap()-before) / records //nolint:gosec // far from overflowing
	t.Logf("%d bytes a record", each)
	assert.Less(t, each, int64(1024))
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	assert.Zero(t, queue.Len(), "none of them is ready")
	runtime.KeepAlive(requests)
}
