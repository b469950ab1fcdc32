package standing

import (
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
	"github.com/hearthdev/hearth/runtime/turn"
)

// Guests is told of agents and of the runs they carry out, so that people can attach to them (R50–R54). Its methods do not block.
type Guests interface {
	// Watch is called before an agent of a slot is greeted, Rose and Fell follow: what it returns is told all that is said to
	// that agent and by it. nil: nobody.
	Watch(slot int) router.Watcher
	// Rose says that the agent of a slot answers, Fell that it does not any more.
	Rose(slot int, conn *router.Conn, agent router.Agent)
	Fell(slot int)
	// Begin says that a session now carries out a run, before its prompt is sent; cancel ends the run by the ladder. End says how
	// it ended, after the agent's answer, and whether the session goes on.
	Begin(slot int, session string, run turn.Run, cancel func(cause error))
	End(slot int, session string, run turn.Run, e wire.Envelope, goesOn bool)
	// Ask puts an agent's permission question to whoever may answer it. If nobody does in time, otherwise answers it.
	Ask(slot int, question *router.Request, otherwise func())
}

// nobody is Guests where no one can attach.
type nobody struct{}

func (nobody) Watch(int) router.Watcher                       { return nil }
func (nobody) Rose(int, *router.Conn, router.Agent)           {}
func (nobody) Fell(int)                                       {}
func (nobody) Begin(int, string, turn.Run, func(error))       {}
func (nobody) End(int, string, turn.Run, wire.Envelope, bool) {}
func (nobody) Ask(_ int, _ *router.Request, otherwise func()) { otherwise() }
