package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/hearthdev/hearth/api/v1alpha1"
)

// Whatever comes in, and whatever is decided, a hook says what controller-runtime's Webhook says.
func TestAHookAnswersAsControllerRuntimeDoes(t *testing.T) {
	run := &v1alpha1.AgentRun{TypeMeta: metav1.TypeMeta{APIVersion: "hearth.dev/v1alpha1", Kind: "AgentRun"}, ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "work"}}
	usual := string(question(t, run))
	patched := admission.Patched("", stamp(run, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelShard: "<blue>"}}})...)
	for name, c := range map[string]struct {
		body   string
		change func(*http.Request)
		decide func() admission.Response
	}{
		"allowed":         {body: usual},
		"patched":         {body: usual, decide: func() admission.Response { return patched }},
		"with a warning":  {body: usual, decide: func() admission.Response { return admission.Allowed("").WithWarnings("idle") }},
		"refused":         {body: usual, decide: func() admission.Response { return answer(admission.Request{}, statusWrite("x")) }},
		"an error":        {body: usual, decide: func() admission.Response { return admission.Errored(http.StatusBadRequest, errors.New(`"x" <y>`)) }},
		"a panic":         {body: usual, decide: func() admission.Response { panic("broken") }},
		"no patch of it":  {body: usual, decide: func() admission.Response { return admission.Patched("", patchOf(func() {})) }},
		"no body":         {body: ""},
		"no JSON":         {body: "goal"},
		"cut off":         {body: usual[:len(usual)-9]},
		"more than one":   {body: usual + "{}"},
		"twice the same":  {body: strings.Replace(usual, `"name":"work"`, `"name":"other","name":"work"`, 1)},
		"another version": {body: strings.Replace(usual, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1)},
		"another kind":    {body: strings.Replace(usual, "AdmissionReview", "Review", 1)},
		"no kind":         {body: strings.Replace(usual, `"kind":"AdmissionReview",`, "", 1)},
		"no request":      {body: `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`},
		"another type":    {body: usual, change: func(r *http.Request) { r.Header.Set("Content-Type", "application/yaml") }},
		"no length":       {body: usual, change: func(r *http.Request) { r.ContentLength = -1 }},
		"ends too early":  {body: usual, change: func(r *http.Request) { r.ContentLength++ }},
		"cannot be read":  {body: usual, change: func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader(usual[:9]), broken{})) }},
		"broken at its end": {body: usual, change: func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(usual), broken{})), r.ContentLength+1
		}},
		"as long as it is": {body: usual + strings.Repeat(" ", largestQuestion-len(usual))},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []admission.Request
			decide := func(_ context.Context, request admission.Request) admission.Response {
				asked = append(asked, request)
				if c.decide == nil {
					return admission.Allowed("")
				}
				return c.decide()
			}
			ask := func(hook http.Handler) *httptest.ResponseRecorder {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(c.body))
				request.Header.Set("Content-Type", "application/json")
				if c.change != nil {
					c.change(request)
				}
				answer := httptest.NewRecorder()
				hook.ServeHTTP(answer, request)
				return answer
			}
			ours, theirs := ask(newHook(decide)), ask(&admission.Webhook{Handler: admission.HandlerFunc(decide)})
			assert.Equal(t, theirs.Code, ours.Code)
			assert.JSONEq(t, theirs.Body.String(), ours.Body.String())
			if len(asked) > 0 {
				require.Len(t, asked, 2)
				assert.Equal(t, asked[1], asked[0])
			}
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// patchOf is a patch with any value, such as one that JSON does not have.
func patchOf(value any) (p jsonpatch.Operation) {
	p.Operation, p.Path, p.Value = "add", "/spec", value
	return p
}

// An answer in one piece spares both ends the chunks of one without a length.
func TestAnAnswerSaysHowLongItIs(t *testing.T) {
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(question(t, &v1alpha1.AgentRun{})))
	request.Header.Set("Content-Type", "application/json")
	long := strings.Repeat("x", 10_000)
	newHook(func(context.Context, admission.Request) admission.Response { return admission.Allowed(long) }).ServeHTTP(answer, request)
	assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	assert.Equal(t, int64(answer.Body.Len()), answer.Result().ContentLength)
	assert.Contains(t, answer.Body.String(), long)
}

// unasked is a decoder that nobody may need.
type unasked struct{ t *testing.T }

func (u unasked) Decode(admission.Request, runtime.Object) error {
	u.t.Error("the slow decoder is asked")
	return nil
}

func (u unasked) DecodeRaw(runtime.RawExtension, runtime.Object) error {
	return u.Decode(admission.Request{}, nil)
}

// Every field that a run can have, those of a Pod included, is read in the one pass, and as the other decoder reads it.
func TestARunWithEveryFieldIsReadInOnePass(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	for _, object := range []runtime.Object{&v1alpha1.AgentRun{}, &v1alpha1.Agent{}} {
		fill := &filler{t: t}
		fill.in(reflect.ValueOf(object).Elem(), 0)
		object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(reflect.TypeOf(object).Elem().Name()))
		text, err := json.Marshal(object)
		require.NoError(t, err)
		ours, theirs := object.DeepCopyObject(), object.DeepCopyObject()
		reflect.ValueOf(ours).Elem().SetZero()
		reflect.ValueOf(theirs).Elem().SetZero()
		require.NoError(t, quick{unasked{t}}.DecodeRaw(runtime.RawExtension{Raw: text}, ours))
		require.NoError(t, admission.NewDecoder(scheme).DecodeRaw(runtime.RawExtension{Raw: text}, theirs))
		assert.Equal(t, theirs, ours)
		assert.Greater(t, fill.fields, 300, "it has fields")
	}
}

// What is malformed is refused in the words that there were before, and what only the other decoder takes is read by it from the start.
func TestWhatIsNotReadInOnePassIsReadAsBefore(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	plain := admission.NewDecoder(scheme)
	for name, text := range map[string]string{
		"nothing":             "",
		"no JSON":             "goal",
		"a number for text":   `{"spec":{"goal":"left","parameters":{"change":17}}}`,
		"text for a number":   `{"spec":{"backoffLimit":"3"}}`,
		"a fraction":          `{"spec":{"backoffLimit":1.5}}`,
		"too large a number":  `{"spec":{"backoffLimit":99999999999}}`,
		"no time":             `{"metadata":{"creationTimestamp":"now"}}`,
		"twice the same":      `{"metadata":{"name":"a","name":"b"}}`,
		"another case":        `{"Metadata":{"name":"a"},"spec":{"Goal":"x"}}`,
		"null":                `{"metadata":null,"spec":{"runtime":null,"parameters":null,"goal":null}}`,
		"unknown fields":      `{"spec":{"unknown":{"goal":["x"]}}}`,
		"no UTF-8":            "{\"spec\":{\"goal\":\"\xff\"}}",
		"half of a surrogate": `{"spec":{"goal":"\ud800"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var ours, theirs v1alpha1.AgentRun
			err, want := quick{plain}.DecodeRaw(runtime.RawExtension{Raw: []byte(text)}, &ours), plain.DecodeRaw(runtime.RawExtension{Raw: []byte(text)}, &theirs)
			if want != nil {
				require.EqualError(t, err, want.Error())
				assert.Equal(t, unreadable(want).Error(), unreadable(err).Error())
				return
			}
			require.NoError(t, err)
			assert.Equal(t, theirs, ours)
		})
	}
}

// filler gives every field of a value something to hold, and counts them.
type filler struct {
	t      *testing.T
	fields int
}

// deepest is how far types that hold themselves are followed.
const deepest = 24

func (f *filler) in(v reflect.Value, depth int) {
	f.fields++
	switch at := v.Addr().Interface().(type) {
	case *metav1.Time:
		at.Time = time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
		return
	case *metav1.MicroTime:
		at.Time = time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.Local)
		return
	case *resource.Quantity:
		*at = resource.MustParse("100m")
		return
	case *intstr.IntOrString:
		*at = intstr.FromString("http")
		return
	case *metav1.FieldsV1:
		at.Raw = []byte(`{"f:spec":{}}`)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.in(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if depth < deepest {
			v.Set(reflect.New(v.Type().Elem()))
			f.in(v.Elem(), depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.in(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.in(key, depth+1)
		f.in(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text \u00e9 <&>")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	default:
		f.t.Fatalf("expected a kind that the API has, got %s", v.Type())
	}
}
