package challenge

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzValid: a challenge has exactly one spelling (SPEC.md, Challenge).
func FuzzValid(f *testing.F) {
	for _, s := range []string{strings.Repeat("A", Length), strings.Repeat("_", Length), strings.Repeat("A", Length-1) + "B", "", strings.Repeat("A", Length) + "=", strings.Repeat("A", Length-1) + "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := base64.RawURLEncoding.DecodeString(text)
		assert.Equal(t, err == nil && len(b) == 32 && base64.RawURLEncoding.EncodeToString(b) == text, Valid(text))
	})
}

// FuzzProof: no text but the proof itself passes for it, and no part of a request can be moved into another (length prefixes).
func FuzzProof(f *testing.F) {
	keys, err := Derive([]byte(strings.Repeat("k", MinRootBytes)), "pod")
	require.NoError(f, err)
	f.Add("POST", "/a", "pod", "boot", "body", "proof", 1)
	f.Add("", "", "", "", "", "", 0)
	f.Fuzz(func(t *testing.T, method, target, pod, boot, body, presented string, move int) {
		r := Request{Method: method, Target: target, PodName: pod, PodUID: "pod", Boot: boot, Challenge: strings.Repeat("A", Length), Body: []byte(body)}
		proof := keys.Proof(r)
		assert.True(t, keys.VerifyProof(r, proof))
		assert.Equal(t, presented == proof, keys.VerifyProof(r, presented))
		if move > 0 && move <= len(target) {
			other := r
			other.Method, other.Target = method+target[:move], target[move:]
			assert.False(t, keys.VerifyProof(other, proof))
		}
	})
}
