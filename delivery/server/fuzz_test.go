package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/challenge"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// FuzzRequest is any request as net/http hands it to the handler, with or without a proof: the handler never fails, answers with
// what the contract has, signs whatever has a well-formed challenge, and repeats nothing that a stranger said.
func FuzzRequest(f *testing.F) {
	nonce := strings.Repeat("A", challenge.Length)
	goal := `{"apiVersion":"hearth.dev/delivery/v1alpha1","run":{"namespace":"n","name":"r","uid":"u"},"attempt":1,"target":{"name":"reviewer-1","uid":"pod-uid-1"},"journal":"j","goal":"planted"}`
	for _, proven := range []bool{true, false} {
		f.Add(http.MethodPost, wire.RunsPath, "reviewer-1:4100", nonce, "BOOT", "wait=1", jsonMediaType, []byte(goal), proven)
		f.Add(http.MethodGet, wire.RunsPath+"?since=0", "reviewer-1", nonce, "BOOT", "wait=\"3\";x, return=minimal", "", []byte(nil), proven)
		f.Add(http.MethodGet, wire.RunsPath+"/u%2f?attempt=01&attempt=2", "REVIEWER-1", nonce, "BOOT", "wait", "", []byte(nil), proven)
		f.Add(http.MethodDelete, wire.RunsPath+"/u?attempt=1&ifNotStarted=", "reviewer-1", nonce, "planted", "wait=-1", "", []byte("x"), proven)
		f.Add(http.MethodPost, wire.RunsPath+"/u/recorded?attempt=+1", "[::1]:1", nonce, "", "wait=99999999999999999999", "application/json; charset=\"", []byte("{"), proven)
		f.Add(http.MethodPost, wire.ChallengePath, "reviewer-1", "planted", "", "", jsonMediaType, []byte(`{"apiVersion":"planted"}`), proven)
		f.Add("PLANTED", "*", "", nonce, "", "", "", []byte(nil), proven)
	}
	h := build(f)
	gone, leave := context.WithCancel(context.Background())
	leave() // a caller that has left: nothing is held
	f.Fuzz(func(t *testing.T, method, target, host, nonce, boot, prefer, media string, body []byte, proven bool) {
		h.t = t
		u, err := url.ParseRequestURI(target)
		if err != nil || method == "" {
			return // net/http refuses it
		}
		if boot == "BOOT" {
			boot = h.server.Boot()
		}
		r := (&http.Request{
			Method: method, URL: u, RequestURI: target, Host: host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
			Header: http.Header{wire.HeaderChallenge: {nonce}, wire.HeaderBoot: {boot}, "Prefer": {prefer}, "Content-Type": {media}},
		}).WithContext(gone)
		asked := challenge.Request{Method: method, Target: target, PodName: testIdentity.PodName, PodUID: testIdentity.PodUID, Boot: boot, Challenge: nonce, Body: body}
		if proven {
			r.Header.Set(wire.HeaderProof, h.keys.Proof(asked))
		} else {
			r.Header.Set(wire.HeaderProof, prefer)
		}
		w := httptest.NewRecorder()
		h.server.Handler().ServeHTTP(w, r)

		answers := w.Header().Values(wire.HeaderAnswer)
		if challenge.Valid(nonce) {
			require.Len(t, answers, 1)
			assert.True(t, h.keys.VerifyAnswer(asked, w.Code, w.Body.Bytes(), answers[0]))
		} else {
			assert.Empty(t, answers)
			assert.Equal(t, http.StatusBadRequest, w.Code)
		}
		assert.NotEqual(t, http.StatusInternalServerError, w.Code, "%s", w.Body)
		assert.True(t, utf8.Valid(w.Body.Bytes()))
		if w.Code < 300 {
			assert.True(t, proven && challenge.Valid(nonce))
			return
		}
		if method == http.MethodHead {
			assert.Zero(t, w.Body.Len())
			return
		}
		p := answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}.problem(t)
		if !proven {
			assert.Contains(t, []wire.Code{wire.CodeMalformed, wire.CodeMisdirected, wire.CodeTooLarge, wire.CodeUnauthenticated}, p.Code)
			known := p.Code == wire.CodeMalformed && p.Field == wire.HeaderChallenge || p.Field == ""
			assert.True(t, known, "%s", w.Body)
		}
		assert.NotContains(t, w.Body.String(), "planted")
	})
}
