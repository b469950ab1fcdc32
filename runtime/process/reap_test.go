package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// waitid(2) says that a child died, that none did, or that there is none; any other answer is no answer, and the process table is read.
func TestARefusedWaitIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		signo   int32
		want    bool
	}{
		"one died":             {[]error{nil}, int32(unix.SIGCHLD), true},
		"none died":            {[]error{nil}, 0, false},
		"no children":          {[]error{unix.ECHILD}, 0, false},
		"refused":              {[]error{unix.EPERM}, 0, true},
		"not there":            {[]error{unix.ENOSYS}, 0, true},
		"interrupted, refused": {[]error{unix.EINTR, unix.EPERM}, 0, true},
		"interrupted, none":    {[]error{unix.EINTR, unix.EINTR, nil}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			got := anyDead(func(found *unix.Siginfo) error {
				found.Signo = c.signo
				asked++
				return c.answers[asked-1]
			})
			assert.Equal(t, c.want, got)
			assert.Len(t, c.answers, asked)
		})
	}
}
