package deliver

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Row 42: a panic in one of several writes is raised where controller-runtime catches it, after the others have ended.
func TestAPanicInAWriteIsThePasss(t *testing.T) {
	all, _ := writing(t.Context())
	done := make(chan struct{})
	all.do(func() error { panic("one of them") })
	all.do(func() error { close(done); return nil })
	assert.PanicsWithValue(t, "caught", func() {
		defer func() {
			said, _ := recover().(string)
			assert.Contains(t, said, "string in a write of this pass")
			assert.NotContains(t, said, "one of them", "it may hold a goal")
			panic("caught")
		}()
		_ = all.wait()
	})
	<-done
}
