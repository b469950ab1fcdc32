package run

import (
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// admitted tells a standing run that the controller made from one that reached storage without admission: it is complete, and an
// Agent controls it.
func admitted(run *v1alpha1.AgentRun) bool {
	controller := metav1.GetControllerOf(run)
	return run.Spec.Runtime != nil && run.Spec.Template != nil && controller != nil && controller.Kind == "Agent" &&
		controller.APIVersion == v1alpha1.GroupVersion.String() && controller.UID == run.Spec.AgentRef.UID
}

// clip cuts a text to at most limit bytes without cutting a character.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.ToValidUTF8(text[:cut], "") + mark
}
