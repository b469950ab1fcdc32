package run

import (
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// admitted tells a run that the controller or admission made from one that reached storage otherwise. A standing run is complete, and
// an Agent controls it; a one-shot run is complete, its deadlines included, and is of an Agent that admission looked up, or ad hoc.
func admitted(run *v1alpha1.AgentRun) bool {
	s := run.Spec
	if s.Runtime == nil || s.Template == nil {
		return false
	}
	if run.OneShot() {
		return s.Goal != "" && s.ActiveDeadlineSeconds != nil && s.StartingDeadlineSeconds != nil && (s.AgentRef.UID != "" || run.AdHoc())
	}
	controller := metav1.GetControllerOfNoCopy(run)
	return controller != nil && controller.Kind == "Agent" && controller.APIVersion == v1alpha1.GroupVersion.String() && controller.UID == s.AgentRef.UID
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
