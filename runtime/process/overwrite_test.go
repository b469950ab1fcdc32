package process

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SPEC.md, Trust: neither /proc nor what the process starts later has the value; everything else is as it was.
func TestOverwriteTakesAValueOutOfTheEnvironment(t *testing.T) {
	spec := shell(t, "echo up; read x; exec env")
	spec.Env = []string{"PATH=" + os.Getenv("PATH"), "BEFORE=1", "XSECRET=other", "SECRET=s3cret", "SECRET_ALSO=s3cret", "EMPTY=", "AFTER=2"}
	p := start(t, spec)
	out := bufio.NewReader(p.Stdout)
	_, err := out.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, p.Overwrite("SECRET"))
	require.NoError(t, p.Overwrite("EMPTY"))
	require.NoError(t, p.Overwrite("NOT_THERE"))
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/environ")
	require.NoError(t, err)
	want := strings.Join(append(append([]string{}, spec.Env...), MarkerName+"="+spec.Marker), "\x00") + "\x00"
	assert.Equal(t, strings.Replace(want, "\x00SECRET=s3cret", "\x00SECRET=xxxxxx", 1), string(environ))
	_, err = io.WriteString(p.Stdin, "go\n")
	require.NoError(t, err)
	<-p.Done()
	assert.ErrorContains(t, p.Overwrite("SECRET"), "overwrite SECRET: the process has ended")
}
