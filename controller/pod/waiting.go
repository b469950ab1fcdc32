package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// maxLastWords bounds what is repeated of a container's last words.
const maxLastWords = 512

// NotRunning says in words why a Pod is not running, with the reason that kubelet or the scheduler gave (R7).
func NotRunning(p *corev1.Pod) string {
	if p == nil {
		return "Pod does not exist"
	}
	if c := condition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return told(c.Reason, c.Message, "Pod is not scheduled")
	}
	if said := waiting(p); said != "" {
		return said
	}
	if Ended(p) {
		return End(p)
	}
	phase := p.Status.Phase
	if phase == "" {
		phase = corev1.PodPending
	}
	return fmt.Sprintf("Pod exists with phase: %s", phase)
}

// End says how a Pod with a terminal phase ended: the Pod's own reason (Evicted, …), else the agent container's exit.
func End(p *corev1.Pod) string {
	if p.Status.Reason != "" || p.Status.Message != "" {
		return told(p.Status.Reason, p.Status.Message, "")
	}
	if s := AgentStatus(p); s != nil && s.State.Terminated != nil {
		return exited(s)
	}
	return fmt.Sprintf("Pod ended with phase: %s", p.Status.Phase)
}

// waiting is the first container's waiting reason that is more than the normal course of a start.
func waiting(p *corev1.Pod) string {
	all := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	for _, normal := range []bool{false, true} {
		for _, s := range all {
			w := s.State.Waiting
			if w == nil || w.Reason == "" || isNormal(w.Reason) != normal {
				continue
			}
			said := fmt.Sprintf("container %s: %s", s.Name, told(w.Reason, w.Message, ""))
			if last := s.LastTerminationState.Terminated; last != nil {
				said += "; it had ended: " + exit(last)
			}
			return said
		}
	}
	return ""
}

// exited is how the container's present life ended.
func exited(s *corev1.ContainerStatus) string {
	return "container " + s.Name + ": " + exit(s.State.Terminated)
}

// exit is the reason and code that kubelet saw, and the container's own last words: why a harness did not start is there.
func exit(t *corev1.ContainerStateTerminated) string {
	said := fmt.Sprintf("%s, exit code %d", cmp.Or(t.Reason, "terminated"), t.ExitCode)
	if words := lastWords(t.Message); words != "" {
		said += ": " + words
	}
	return said
}

// lastWords is the end of a message, where an error is, as one line without commands for a terminal.
func lastWords(message string) string {
	s := strings.Join(strings.FieldsFunc(wire.CleanText(message), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) <= maxLastWords {
		return s
	}
	from := len(s) - maxLastWords
	for !utf8.RuneStart(s[from]) {
		from++
	}
	return "…" + s[from:]
}

func isNormal(reason string) bool {
	return reason == "ContainerCreating" || reason == "PodInitializing"
}

func told(reason, message, otherwise string) string {
	switch {
	case reason != "" && message != "":
		return reason + ": " + message
	case reason != "" || message != "":
		return reason + message
	default:
		return otherwise
	}
}
