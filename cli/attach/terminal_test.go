package attach

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/hearthdev/hearth/cli/forward"
	"github.com/hearthdev/hearth/test/process"
)

// tty is a terminal: what a person types goes in at the person's end, and what is shown comes out there.
type tty struct {
	t      *testing.T
	person *os.File
	ours   *os.File
	shown  *process.Output
}

func newTTY(t *testing.T) *tty {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	raw, err := person.SyscallConn() // Fd would make it one that blocks, also when it is closed
	require.NoError(t, err)
	n := 0
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		require.NoError(t, err)
	}))
	ours, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	y := &tty{t: t, person: person, ours: ours, shown: process.NewOutput()}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			k, err := person.Read(buffer)
			_, _ = y.shown.Write(buffer[:k])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = person.Close(); <-read; _ = ours.Close() })
	return y
}

func (y *tty) press(keys string) {
	y.t.Helper()
	_, err := y.person.WriteString(keys)
	require.NoError(y.t, err)
}

func (y *tty) state() unix.Termios {
	y.t.Helper()
	state, err := unix.IoctlGetTermios(int(y.ours.Fd()), unix.TCGETS)
	require.NoError(y.t, err)
	return *state
}

func (y *tty) open(ctx context.Context) (Screen, func()) {
	y.t.Helper()
	screen, restore, err := OpenScreen(ctx, y.ours, y.ours, true, 80)
	require.NoError(y.t, err)
	require.True(y.t, screen.Keys())
	return screen, restore
}

// R52, R55: a digit answers the question that is put, and nothing else does; the terminal is as it was when the run has ended.
func TestAKeyAnswersAQuestion(t *testing.T) {
	t.Parallel()
	p, y, g := newPod(t, "--permissions=Ask", "--ask-timeout=1h"), newTTY(t), newGate(t)
	before := y.state()
	screen, restore := y.open(t.Context())
	run := p.deliver("review-1", "say: one", g.wait(), "permit: reject_once,allow_once", "permit: allow_once", "say: well")
	w := watch(t, p, run, func(f *Follower) { f.Access, f.Screen = forward.Steer, screen })
	y.shown.Await(t, `one`)
	y.press("1") // no question yet: the beginning of a line
	y.press("\x7f")
	y.shown.Await(t, `1\x1b\[D `) // both were read
	g.open()
	y.shown.Await(t, `\[question\] may the agent`)
	y.shown.Await(t, `1-2\? `)
	y.press("9\x7f2")
	y.shown.Await(t, `\[answer\] allow_once \(allow_once\)`)
	y.shown.Await(t, `1-1\? `)
	p.cut() // the question comes again, under another id
	y.shown.Await(t, `elsewhere, or it is not waited for any more`)
	y.shown.Await(t, `(?s)not waited for any more.*1-1\? `)
	y.press("1")
	y.shown.Await(t, `well`)
	y.shown.Await(t, `ended: Succeeded`)
	w.tell(recorded(run))
	require.NoError(t, w.end())
	restore()
	assert.Equal(t, before, y.state())
	shown := y.shown.String()
	assert.Contains(t, shown, "allow_once well\r\n")
}

// Ctrl-C leaves and ends nothing; a terminal is given back on that way, too, and when ctx ends, as it does by a signal.
func TestTheTerminalIsGivenBack(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	run := p.deliver("review-1", "say: one", "mute:")
	for name, leave := range map[string]func(*tty, *watcher){
		"Ctrl-C": func(y *tty, _ *watcher) { y.press("\x03") },
		"Ctrl-D": func(y *tty, _ *watcher) { y.press("\x04") },
		"signal": func(_ *tty, w *watcher) { w.cancel() },
	} {
		y := newTTY(t)
		before := y.state()
		screen, restore := y.open(t.Context())
		assert.NotEqual(t, before, y.state(), "it is raw")
		w := watch(t, p, run, func(f *Follower) { f.Access, f.Screen = forward.Steer, screen })
		y.shown.Await(t, `one`)
		leave(y, w)
		err := w.end()
		require.Error(t, err, name)
		if name != "signal" {
			require.ErrorIs(t, err, ErrLeft)
		}
		restore()
		assert.Equal(t, before, y.state(), name)
	}
}

// A panic goes on its way, and the terminal is what it was.
func TestAPanicGivesTheTerminalBack(t *testing.T) {
	y := newTTY(t)
	before := y.state()
	screen, restore := y.open(t.Context())
	defer restore()
	assert.Panics(t, func() {
		defer screen.(*terminal).guard()
		panic("ours")
	})
	assert.Equal(t, before, y.state())
}

// What is pasted answers no question: a person presses a key for that.
func TestWhatIsPastedIsNoAnswer(t *testing.T) {
	y := newTTY(t)
	screen, restore := y.open(t.Context())
	defer restore()
	screen.Ask(Asked{Number: 7, Keys: 3})
	y.shown.Await(t, `1-3\? `)
	y.press("\x1b[200~2\x1b[201~\r")
	in := <-screen.Inputs()
	assert.Equal(t, Input{Line: "2"}, in)
	y.press("3")
	in = <-screen.Inputs()
	assert.Equal(t, Input{Key: 3, Asked: Asked{Number: 7, Keys: 3}}, in)
}

// What is shown is whole lines, so that what somebody types is not torn.
func TestAtATerminalLinesAreShownWhole(t *testing.T) {
	y := newTTY(t)
	screen, restore := y.open(t.Context())
	defer restore()
	for _, piece := range []string{"be", "gun", " and", " ended\nnot"} {
		_, err := screen.Write([]byte(piece))
		require.NoError(t, err)
	}
	y.shown.Await(t, `begun and ended\r\n`)
	_, err := screen.Write([]byte(strings.Repeat(" word", 30)))
	require.NoError(t, err)
	y.shown.Await(t, `not word`)
}

// Something without a space or an end is shown all the same, and what waits to be shown has a bound.
func TestAWordWithoutEndIsShownInPieces(t *testing.T) {
	y := newTTY(t)
	screen, restore := y.open(t.Context())
	defer restore()
	for range 64 {
		_, err := screen.Write([]byte(strings.Repeat("\x1b[2m"+strings.Repeat("é", 500)+"\x1b[0m", 3)))
		require.NoError(t, err)
		require.LessOrEqual(t, len(screen.(*terminal).open), maxWord)
	}
	y.shown.Await(t, `éééé`)
	_, err := screen.Write([]byte("\n" + strings.Repeat("x", 200) + " and more"))
	require.NoError(t, err)
	y.shown.Await(t, `x\r\n`)
	assert.True(t, utf8.ValidString(y.shown.String()))
	assert.NotRegexp(t, `\x1b(\[\d?)?\r`, y.shown.String(), "no style is torn")
}
