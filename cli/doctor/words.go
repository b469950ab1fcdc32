package doctor

import (
	"cmp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

const (
	// maxSaw bounds what is repeated of others' words, maxNamed how many things a sentence names.
	maxSaw   = 600
	maxNamed = 5
)

// oneLine is text without line ends and commands for a terminal; of what is too long it keeps the end, where an error is.
func oneLine(text string, limit int) string {
	s := strings.Join(strings.FieldsFunc(wire.CleanText(text), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) <= limit {
		return s
	}
	from := len(s) - limit
	for !utf8.RuneStart(s[from]) {
		from++
	}
	return "…" + s[from:]
}

// list names some of them.
func list(names []string) string {
	if len(names) > maxNamed {
		names = append(names[:maxNamed:maxNamed], "…")
	}
	return strings.Join(names, ", ")
}

// told joins a reason and a message, where there are both.
func told(reason, message string) string {
	if reason != "" && message != "" {
		return reason + ": " + message
	}
	return reason + message
}

// because says why something could not be read, in the API server's words.
func because(err error) string {
	switch text := err.Error(); {
	case apierrors.IsForbidden(err):
		if _, cannot, found := strings.Cut(text, " cannot "); found {
			return "you cannot " + oneLine(cannot, maxSaw)
		}
		return "you have no right to: " + oneLine(text, maxSaw)
	case apierrors.IsUnauthorized(err):
		return "the API server does not know you: " + oneLine(text, maxSaw)
	default:
		return "it could not be read: " + oneLine(text, maxSaw)
	}
}

// ago is a time in words, by the API server's clock.
func ago(now, then time.Time) string {
	d := now.Sub(then)
	if d > time.Minute {
		return d.Round(time.Minute).String()[:strings.Index(d.Round(time.Minute).String(), "m")+1] + " ago"
	}
	return max(0, d).Round(time.Second).String() + " ago"
}

func condition(all []metav1.Condition, kind string) metav1.Condition {
	for _, c := range all {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

func podCondition(p *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// exit is how a container ended, with its own last words, or those of its log where it left none.
func exit(t *corev1.ContainerStateTerminated, tail string) string {
	said := cmp.Or(t.Reason, "terminated") + ", exit code " + itoa(t.ExitCode)
	if t.Signal != 0 {
		said += ", signal " + itoa(t.Signal)
	}
	if words := oneLine(cmp.Or(t.Message, tail), maxSaw/2); words != "" {
		said += ": " + words
	}
	return said
}
