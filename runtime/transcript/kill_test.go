package transcript

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain also plays the harness that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "play-append" {
		playAppend(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// playAppend appends until it is killed, and says what it has appended.
func playAppend(dir string) {
	cfg := config(dir)
	cfg.PartBytes, cfg.Parts = 200_000, 1000
	s, err := Open(cfg)
	if err != nil {
		panic(err)
	}
	b, err := s.Begin(header("r", 1))
	if err != nil {
		panic(err)
	}
	for i := 1; ; i++ {
		if i%7 != 0 && i*7919%20_000 < 15_000 { // gathered, across the end of a part too
			b.Hold(FromAgent, frame(i, i*7919%20_000))
			continue
		}
		fmt.Println(b.Append(FromAgent, frame(i, i*7919%20_000)).Seq)
	}
}

// kill -9 at any moment: every entry that was appended is there, with those held before it, and some of those
// after it, the last of them whole or as a Note.
func TestKilledWhileItAppends(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	for round := range 20 {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), exe, "play-append", dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		last := uint64(0)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.ParseUint(lines.Text(), 10, 64)
			require.NoError(t, err)
			if last = n; n >= uint64(20+round*13) { //nolint:gosec // small
				_ = cmd.Process.Kill()
			}
		}
		assert.Error(t, cmd.Wait())
		b, ok := open(t, config(dir)).Find("r-uid")
		require.True(t, ok)
		assert.GreaterOrEqual(t, b.Last(), last)
		assert.LessOrEqual(t, b.Last(), last+7, "those that were being written, of which the last is the next that is told")
		for i, e := range read(t, b, 1, b.Last()) {
			assert.Equal(t, uint64(i)+1, e.Seq)
			if e.Direction == Note {
				assert.Equal(t, b.Last(), e.Seq)
				continue
			}
			assert.True(t, strings.HasPrefix(string(e.Frame), fmt.Sprintf(`{"n":%d,`, e.Seq)))
		}
	}
}
