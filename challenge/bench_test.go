package challenge

import (
	"bytes"
	"crypto/rand"
	"testing"
)

// BenchmarkProofAndAnswer is what both ends of a delivery with a goal of 1 KiB reckon: a nonce, a proof and its check, an answer and its check.
func BenchmarkProofAndAnswer(b *testing.B) {
	keys, err := Derive(bytes.Repeat([]byte("k"), Length), "pod-1")
	if err != nil {
		b.Fatal(err)
	}
	r := Request{Method: "POST", Target: "/hearth.dev/v1alpha1/agent-runs", PodName: "reviewer-1", PodUID: "pod-1", Boot: "boot", Body: bytes.Repeat([]byte("x"), 1<<10)}
	b.ReportAllocs()
	for b.Loop() {
		if r.Challenge, err = New(rand.Reader); err != nil {
			b.Fatal(err)
		}
		proof := keys.Proof(r)
		if !keys.VerifyProof(r, proof) {
			b.Fatal("a proof does not hold")
		}
		if !keys.VerifyAnswer(r, 202, r.Body, keys.Answer(r, 202, r.Body)) {
			b.Fatal("an answer does not hold")
		}
	}
}
