package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The configurations keep trusted writes away from the webhooks; a webhook that is called all the same lets them pass, and looks
// at nothing (there is nothing here to look with).
func TestTrustedWritesPassUnseen(t *testing.T) {
	r, a := &runs{controller: "the-controller"}, &agents{controller: "the-controller"}
	for _, user := range []string{"the-controller", garbageCollector, allInOneManager} {
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: user}}}
		for _, response := range []admission.Response{r.mutate(t.Context(), request), r.validate(t.Context(), request), a.validate(t.Context(), request)} {
			assert.True(t, response.Allowed, user)
			assert.Empty(t, response.Patches, user)
		}
	}
	assert.False(t, trusted(admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:team:hearth-controller"}}}, r.controller))
}
