package admission

import (
	"bytes"
	stdjson "encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// largestQuestion is what controller-runtime reads at most. What is longer, and what has no length, is left to it.
	largestQuestion = 7 << 20

	mediaTypeJSON = "application/json"
)

// review is the type of every question and every answer. The webhooks' configurations ask for no other.
var review = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// hook answers the API server as controller-runtime's Webhook does, for a fraction of its processor time: a question, and each object in
// it, is decoded in one pass, nothing is made ready for a log that is not written, and an answer goes out in one piece. Whatever is not
// the usual question is left to that Webhook, so that every error is its own.
type hook struct{ *admission.Webhook }

func newHook(handle admission.HandlerFunc) hook {
	return hook{&admission.Webhook{Handler: handle, LogConstructor: func(base logr.Logger, _ *admission.Request) logr.Logger { return base }}}
}

func (h hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength <= 0 || r.ContentLength >= largestQuestion || r.Header.Get("Content-Type") != mediaTypeJSON {
		h.Webhook.ServeHTTP(w, r)
		return
	}
	text := make([]byte, r.ContentLength)
	n, err := io.ReadFull(r.Body, text)
	question, usual := asked(text[:n])
	if err != nil || !usual {
		r.Body = rest{io.MultiReader(bytes.NewReader(text[:n]), r.Body), r.Body}
		h.Webhook.ServeHTTP(w, r)
		return
	}
	response := h.Handle(r.Context(), question)
	tell(w, &response.AdmissionResponse)
}

// rest is a body from its beginning, of which some was read before.
type rest struct {
	io.Reader
	io.Closer
}

// asked is the request that a question is about, if it is a usual one.
func asked(text []byte) (admission.Request, bool) {
	var question struct {
		metav1.TypeMeta
		Request *admissionv1.AdmissionRequest `json:"request"`
	}
	if err := json.Unmarshal(text, &question); err != nil || question.TypeMeta != review || question.Request == nil {
		return admission.Request{}, false
	}
	return admission.Request{AdmissionRequest: *question.Request}, true
}

// tell sends an answer. With its length it needs no chunks, and with its type nobody guesses one.
func tell(w http.ResponseWriter, response *admissionv1.AdmissionResponse) {
	text, err := stdjson.Marshal(admissionv1.AdmissionReview{TypeMeta: review, Response: response})
	if err != nil { // texts, numbers and bytes alone
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaTypeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // whoever asked has gone
}

// quick reads an object in one pass where the other needs four. What it cannot read it leaves to the other, whose errors are known.
type quick struct{ admission.Decoder }

func (d quick) DecodeRaw(object runtime.RawExtension, into runtime.Object) error {
	if len(object.Raw) > 0 && json.Unmarshal(object.Raw, into) == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero() // what was read before the error
	return d.Decoder.DecodeRaw(object, into)
}
