package challenge

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type vector struct {
	Name, Root, PodUID, PodName, Method, Target, Boot, Challenge, Body string
	Keys                                                               map[string]string
	Proof                                                              string
	Status                                                             int
	AnswerBody, Answer, TLSPublicKey                                   string
}

func vectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var file struct{ Cases []vector }
	require.NoError(t, json.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Cases)
	return file.Cases
}

func b64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	require.NoError(t, err)
	return b
}

func (v vector) request() Request {
	return Request{v.Method, v.Target, v.PodName, v.PodUID, v.Boot, v.Challenge, []byte(v.Body)}
}

// R26; SPEC.md, Challenge: keys, proofs, answers and the TLS key are the published ones.
func TestKnownAnswers(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			k, err := Derive([]byte(v.Root), v.PodUID) // the exact characters of the Secret, not what they decode to
			require.NoError(t, err)
			assert.Equal(t, b64(t, v.Keys["request"]), k.request)
			assert.Equal(t, b64(t, v.Keys["answer"]), k.answer)
			assert.Equal(t, b64(t, v.Keys["tls"]), k.tls)
			assert.Equal(t, v.Proof, k.Proof(v.request()))
			assert.Equal(t, v.Answer, k.Answer(v.request(), v.Status, []byte(v.AnswerBody)))
			assert.Equal(t, ed25519.PublicKey(b64(t, v.TLSPublicKey)), k.TLSKey().Public())
			assert.True(t, k.VerifyProof(v.request(), v.Proof))
			assert.True(t, k.VerifyAnswer(v.request(), v.Status, []byte(v.AnswerBody), v.Answer))
		})
	}
}

// Every part that a MAC covers changes it; a part moved across a border does too, which is what the length prefixes are for.
func TestEveryPartIsCovered(t *testing.T) {
	k, err := Derive(bytes.Repeat([]byte{1}, 32), "uid")
	require.NoError(t, err)
	base := Request{"POST", "/a?b", "pod", "uid", "boot", "c", []byte("body")}
	changes := map[string]Request{
		"method":    {"PUT", "/a?b", "pod", "uid", "boot", "c", []byte("body")},
		"target":    {"POST", "/a?c", "pod", "uid", "boot", "c", []byte("body")},
		"pod UID":   {"POST", "/a?b", "pod", "uie", "boot", "c", []byte("body")},
		"boot":      {"POST", "/a?b", "pod", "uid", "boat", "c", []byte("body")},
		"challenge": {"POST", "/a?b", "pod", "uid", "boot", "d", []byte("body")},
		"border":    {"POST/", "a?b", "pod", "uid", "boot", "c", []byte("body")},
	}
	for name, r := range changes {
		assert.NotEqual(t, k.Proof(base), k.Proof(r), name)
		assert.NotEqual(t, k.Answer(base, 200, nil), k.Answer(r, 200, nil), name)
	}
	withBody, withName := base, base
	withBody.Body, withName.PodName = []byte("bodz"), "pob"
	assert.NotEqual(t, k.Proof(base), k.Proof(withBody), "body")
	assert.NotEqual(t, k.Proof(base), k.Proof(withName), "pod name")
	assert.NotEqual(t, k.Answer(base, 200, nil), k.Answer(base, 201, nil), "status")
	assert.NotEqual(t, k.Answer(base, 200, nil), k.Answer(base, 200, []byte("x")), "answer body")
	assert.NotEqual(t, k.Proof(base), k.Answer(base, 200, base.Body), "a proof is no answer")
	assert.False(t, k.VerifyProof(base, ""))
}

func TestKeysOfAnotherPodDifferUnderTheSameSecret(t *testing.T) {
	root := bytes.Repeat([]byte{7}, 32)
	a, err := Derive(root, "pod-a")
	require.NoError(t, err)
	b, err := Derive(root, "pod-b")
	require.NoError(t, err)
	assert.NotEqual(t, a.request, b.request)
	assert.NotEqual(t, a.answer, b.answer)
	assert.NotEqual(t, a.tls, b.tls)
}

func TestBadRootIsRefusedWithoutShowingIt(t *testing.T) {
	_, err := Derive([]byte("short-secret"), "uid")
	require.ErrorContains(t, err, "at least 32 bytes, got 12")
	assert.NotContains(t, err.Error(), "short-secret")
	_, err = Derive(bytes.Repeat([]byte{7}, 32), "")
	require.ErrorContains(t, err, "pod UID")
}

func TestKeysNeverPrintThemselves(t *testing.T) {
	k, err := Derive(bytes.Repeat([]byte("k"), 32), "uid")
	require.NoError(t, err)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		assert.Equal(t, "keys(redacted)", fmt.Sprintf(format, k), format)
	}
}

func TestChallengeIsFreshAndWellFormed(t *testing.T) {
	a, err := New(rand.Reader)
	require.NoError(t, err)
	b, err := New(rand.Reader)
	require.NoError(t, err)
	assert.NotEqual(t, a, b)
	assert.True(t, Valid(a))
	for name, bad := range map[string]string{
		"empty": "", "short": a[1:], "long": a + "A", "padded": a[:42] + "=", "not base64url": "+" + a[1:],
		"stray bits": strings.Repeat("A", 42) + "B", "newline": a[:42] + "\n",
	} {
		assert.False(t, Valid(bad), name)
	}
	_, err = New(strings.NewReader("too little"))
	require.Error(t, err)
}
